"""Packages for hosts, made from the static program: deb, rpm, apk, FreeBSD's pkg, and a tar."""
