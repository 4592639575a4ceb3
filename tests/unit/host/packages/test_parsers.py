"""What package managers print, parsed: real output, odd cases, and anything at all.

The README beside the data files says which of them were captured, and which were written by hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.host.base import HostError, WantedPackage
from nodemanager.host.packages import apk, apt, common, dnf, pacman, pkgng
from nodemanager.host.packages.common import Offer

CASES = Path(__file__).parents[3] / "cases" / "packages"


def captured(name: str) -> str:
    return (CASES / f"{name}.txt").read_text()


def stanza(name: str, status: str, version: str = "1.0", arch: str = "all") -> str:
    return f"Package: {name}\nStatus: {status}\nArchitecture: {arch}\nVersion: {version}\n\n"


def test_dpkg_status_of_a_real_host() -> None:
    parsed = apt.parse_status(captured("dpkg-status").encode())
    assert {name: version for name, version in parsed.items() if ":" not in name} == {
        "adduser": "3.134",
        "base-passwd": "3.6.1",
        "bash": "5.2.15-2+b8",
        "dpkg": "1.21.23",
        "libc6": "2.36-9+deb12u14",
    }
    assert (parsed["adduser:all"], parsed["libc6:amd64"]) == ("3.134", "2.36-9+deb12u14")


@pytest.mark.parametrize(
    ("status", "counts"),
    [
        ("install ok installed", True),
        ("hold ok installed", True),
        ("install ok triggers-pending", True),
        ("install ok triggers-awaited", True),
        ("deinstall ok config-files", False),
        ("install ok half-configured", False),
        ("install reinstreq half-installed", False),
        ("install ok unpacked", False),
        ("unknown ok not-installed", False),
    ],
)
def test_dpkg_states(status: str, counts: bool) -> None:
    assert ("x" in apt.parse_status(stanza("x", status).encode())) == counts


@pytest.mark.parametrize("order", [("amd64", "i386"), ("i386", "amd64")])
def test_dpkg_name_alone_is_the_one_of_the_hosts_architecture(order: tuple[str, str]) -> None:
    versions = {"amd64": "2:2.0-1", "i386": "2:1.0-1"}
    text = stanza("dpkg", "install ok installed", arch="amd64")
    text += "".join(stanza("libx", "install ok installed", versions[arch], arch) for arch in order)
    text += stanza("wine32", "install ok installed", "8.0", "i386")
    parsed = apt.parse_status(text.encode())
    assert (parsed["libx"], parsed["libx:amd64"], parsed["libx:i386"]) == ("2:2.0-1", "2:2.0-1", "2:1.0-1")
    assert (parsed["wine32"], parsed["wine32:i386"]) == ("8.0", "8.0")


def test_dpkg_what_fits_all_architectures_is_there_for_the_hosts_own() -> None:
    """Else a package that is declared as name:amd64 would be missing for ever, as apt installs that."""
    text = stanza("dpkg", "install ok installed", arch="amd64") + stanza("x", "install ok installed", "2")
    parsed = apt.parse_status(text.encode())
    assert (parsed["x:all"], parsed["x:amd64"], parsed["x"]) == ("2", "2", "2")
    assert "x:i386" not in parsed


@pytest.mark.parametrize(
    "name", ["nm-lib\n", "nm-lib-", "-o", "a b", "a=1", "a/b", "@x", "a*", "", "a" * 256]
)
def test_what_is_no_name_of_a_package_is_refused(name: str) -> None:
    with pytest.raises(HostError, match="this is not the name of a package"):
        common.check_names([name])
    with pytest.raises(HostError, match="this is not a version"):
        common.check_wanted([WantedPackage("a", f"1 {name}")])


def test_dpkg_fields_in_descriptions_are_no_fields() -> None:
    text = stanza("x", "install ok installed", "1").strip() + "\nDescription: y\n Version: 2\n"
    assert apt.parse_status(text.encode())["x"] == "1"


def test_apt_policy_of_a_real_host() -> None:
    assert apt.parse_policy(captured("apt-policy")) == {
        "bash": Offer("5.2.15-2+b13", ("5.2.15-2+b13", "5.2.15-2+b8")),
        "libc6": Offer("2.36-9+deb12u14", ("2.36-9+deb12u14", "2.36-9+deb12u7")),
        "dpkg": Offer("1.21.23", ("1.21.23",)),
    }


def test_pacman_info_of_the_real_tool() -> None:
    offers = pacman.parse_info(captured("pacman-info"))
    assert {name: offer.newest for name, offer in offers.items()} == {"app": "1.0-1", "lib": "1:1.0-1"}


def test_pacman_takes_the_first_repository_and_no_further_lines_of_a_value() -> None:
    text = "Name : x\nVersion : 1-1\nOptional Deps : a: b\n   Version : c\n\nName : x\nVersion : 2-1\n"
    assert pacman.parse_info(text) == {"x": Offer("1-1", ("1-1",))}


def test_pacman_folders() -> None:
    folders = ["ALPM_DB_VERSION", "lib32-glibc-2.39+r52-1", "vim-2:9.1.0-1", "a-b"]
    assert pacman.parse_local(folders) == {"lib32-glibc": "2.39+r52-1", "vim": "2:9.1.0-1"}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("vim-2:9.1.0-1-x86_64.pkg.tar.zst", True),
        ("vim-2:9.1.0-1-any.pkg.tar.xz", True),
        ("vim-2:9.1.0-1-x86_64.pkg.tar.zst.sig", False),
        ("vim-2:9.1.0-11-x86_64.pkg.tar.zst", False),
        ("gvim-2:9.1.0-1-x86_64.pkg.tar.zst", False),
    ],
)
def test_pacman_downloads(name: str, found: bool) -> None:
    assert pacman.cached_file([name], WantedPackage("vim", "2:9.1.0-1")) == (name if found else "")


def test_rpm_and_dnf_of_the_real_tools() -> None:
    installed = dnf.parse_installed(captured("rpm-installed"))
    assert (installed["nmlib"], installed["nmlib.noarch"], installed["nmapp"]) == (
        "1:1.0-1",
        "1:1.0-1",
        "1.0-1",
    )
    assert dnf.parse_offers(captured("dnf-repoquery"))["nmapp"].versions == ("1.0-1", "2.0-1")


def test_rpm_of_several_kernels_the_last_installed_counts_and_keys_are_no_packages() -> None:
    text = (
        "kernel-core\t6.10.1-1\tx86_64\t200\nkernel-core\t6.9.1-1\tx86_64\t100\n"
        "gpg-pubkey\t18b8e74c-62f2920f\t(none)\t100\nbroken line\n"
    )
    assert dnf.parse_installed(text) == {"kernel-core": "6.10.1-1", "kernel-core.x86_64": "6.10.1-1"}


def test_dnf_targets() -> None:
    assert dnf.target(WantedPackage("glibc.i686"), "2.38-14") == "glibc-2.38-14.i686"
    assert dnf.target(WantedPackage("python3.12"), "1:3.12.0-1") == "python3.12-1:3.12.0-1"


def test_apk_output() -> None:
    assert apk.parse_installed(captured("apk-installed").encode()) == {
        "alpine-baselayout": "3.4.3-r2",
        "busybox": "1.36.1-r15",
        "wireguard-tools-wg": "1.0.20210914-r3",
    }
    offers = apk.parse_search(captured("apk-search"))
    assert offers["nginx"] == Offer("1.24.0-r16", ("1.24.0-r15", "1.24.0-r16"))
    assert offers["py3-setuptools"].newest == "68.2.2-r0"
    assert apk.parse_kept(captured("apk-del-kept")) == ["curl", "git", "cmake"]
    assert apk.parse_kept("OK: 24 MiB in 31 packages") == []


def test_pkg_output() -> None:
    assert pkgng.parse_pairs(captured("pkg-query"))["python39"] == "3.9.18,1"
    assert pkgng.parse_offers("a 2.0\na 1.0\n") == {"a": Offer("2.0", ("2.0", "1.0"))}
    assert pkgng.parse_dependents("curl git\ncurl php\nzsh x\n", ["curl"]) == ["git", "php"]


LINES = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.sampled_from(
            [
                *("Package: a", "Status: install ok installed", "Version: 1", "Architecture: all", "Status:"),
                *("a:", "  Candidate: 1", " *** 1 500", "     1 500", "  Candidate: (none)", ":", "end:"),
                *(
                    "P:a",
                    "V:1",
                    "P:",
                    "V:",
                    "Name : a",
                    "Version : 1",
                    "a-1-r0",
                    "a\t1\tnoarch",
                    "a\t1\tx\t5",
                ),
                *("", "not removed due to:", "  a: b", "a 1", "gpg-pubkey\t1\t2\t3", "a\t1\tx\t\u00b2"),
            ]
        ),
    ),
    max_size=40,
).map("\n".join)


@given(LINES)
def test_no_output_crashes_a_parser_or_grows_in_it(text: str) -> None:
    parsed: list[dict[str, str] | dict[str, Offer]] = [
        apt.parse_status(text.encode("utf-8", "replace")),
        apt.parse_policy(text),
        pacman.parse_info(text),
        pacman.parse_query(text),
        pacman.parse_local(text.splitlines()),
        dnf.parse_installed(text),
        dnf.parse_offers(text),
        apk.parse_installed(text.encode("utf-8", "replace")),
        apk.parse_search(text),
        pkgng.parse_pairs(text),
        pkgng.parse_offers(text),
    ]
    lines = len(text.splitlines())
    for found in parsed:
        assert len(found) <= 2 * lines
        assert all(found.values())
    assert isinstance(apk.parse_kept(text), list)
    assert isinstance(pkgng.parse_dependents(text, ["a"]), list)


@given(st.binary(max_size=300))
def test_no_bytes_crash_a_parser_of_databases(data: bytes) -> None:
    apt.parse_status(data)
    apk.parse_installed(data)
