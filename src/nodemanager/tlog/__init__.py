"""Transparency logs in formats that others verify, too: RFC 6962 trees, C2SP notes and checkpoints.

Beside them `minisign`, signatures of single files and texts.

Pure, and without a word about what is logged.
"""
