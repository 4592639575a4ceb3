"""Programs of a host in a folder (support/edge_host.py), as text.

They keep to the kernel's rules (a bond changes its mode only while it is down and empty, and sends by the
card whose link is there first), note every call, and kill who runs them at the call that a test says.
"""

from __future__ import annotations

FIELD, RECORD = "\x1f", "\x1e"
"""What ends a word of a noted call, and a call."""

# In sh, because a flip is dozens of calls, and Python takes thirty times as long to start.
COMMON = f"""
set -eu
if [ "$1 ${{2-}}" = "-j address" ]; then # to look is no call
    [ -d "$root/sys/class/net/$5" ] || {{ echo "Device \\"$5\\" does not exist." >&2; exit 1; }}
    if [ -e "$world/addresses/$5" ]; then cat "$world/addresses/$5"; else echo '[{{}}]'; fi
    exit 0
fi
set -- "${{0##*/}}" "$@"
IFS='{FIELD}'
printf '%s{RECORD}' "$*" >>"$world/calls"
unset IFS
shift
if [ -e "$world/kill" ] && [ "$(tr -dc '{RECORD}' <"$world/calls" | wc -c)" -eq "$(cat "$world/kill")" ]; then
    kill -KILL "$PPID"
    exit 1
fi
fail() {{ echo "$1" >&2; exit 1; }}
get() {{ got=; read -r got <"$1" || [ -e "$1" ]; }}
"""
IP = """
net=$root/sys/class/net
[ "$1 $2 $3" = "link set dev" ] || fail "what is $*?"
name=$4 state=$net/$4/operstate bonding=$net/$4/bonding
shift 4
if [ -e "$bonding/mode" ]; then
    get "$bonding/mode"
    case $got in active-backup* | balance-tlb* | balance-alb*) sends=1 ;; *) sends= ;; esac
fi
prefer() { # the card that sends: this one, if it has a link
    get "$net/$1/bonding_slave/mii_status"
    [ "$got" != up ] || echo "$1" >"$bonding/active_slave"
}
case $* in
up)
    if [ -n "${sends-}" ]; then
        get "$bonding/slaves"
        all=$got
        for one in $all; do prefer "$one"; done # the last card is there first, unless a test says
        [ ! -e "$world/first" ] || prefer "$(cat "$world/first")"
        get "$bonding/primary"
        [ -z "$got" ] || prefer "$got"
    fi
    echo up >"$state"; echo 0x1403 >"$net/$name/flags" ;;
down) echo down >"$state"; echo 0x1402 >"$net/$name/flags" ;;
nomaster)
    for slaves in "$net"/*/bonding/slaves; do
        get "$slaves"
        left=
        for one in $got; do [ "$one" = "$name" ] || left="${left:+$left }$one"; done
        echo "$left" >"$slaves"
        get "${slaves%/*}/active_slave"
        [ "$got" != "$name" ] || echo >"${slaves%/*}/active_slave"
        [ -n "$left" ] || echo 2a:00:00:00:00:01 >"${slaves%/bonding/slaves}/address"
    done ;;
"master "*)
    get "$state"
    [ "$got" != up ] || fail "RTNETLINK answers: Operation not permitted"
    get "$net/$2/bonding/slaves"
    have=$got
    if [ -z "$have" ]; then get "$net/$name/bonding_slave/perm_hwaddr"; echo "$got" >"$net/$2/address"; fi
    case " $have " in *" $name "*) ;; *) have="${have:+$have }$name" ;; esac
    echo "$have" >"$net/$2/bonding/slaves"
    echo up >"$state" ;;
"type bond mode "*)
    get "$bonding/slaves"
    [ -z "$got" ] || fail "RTNETLINK answers: Directory not empty"
    get "$state"
    [ "$got" != up ] || fail "RTNETLINK answers: Device or resource busy"
    if [ -s "$world/refuse" ]; then # as where a card was added meanwhile
        get "$world/refuse"
        echo "$((got - 1))" >"$world/refuse"
        [ "$got" -le 0 ] || fail "RTNETLINK answers: Directory not empty"
    fi
    echo none 0 >"$bonding/arp_validate"
    echo >"$bonding/active_slave"
    echo "$4 9" >"$bonding/mode" ;;
"address "*) echo "$2" >"$net/$name/address" ;;
"type bond primary "*) echo "$4" >"$bonding/primary"; prefer "$4" ;;
"type bond active_slave "*)
    prefer "$4"
    [ "$got" = up ] || fail "RTNETLINK answers: Invalid argument" ;;
*) fail "what is $name $*?" ;;
esac
"""
SYSTEMCTL = """
cd "$world/units"
verb=$1 seen=
shift
IFS= # patterns are expanded, and nothing is split
for one in "$@"; do
    case $one in -*) continue ;; esac
    seen=1
    case $verb in
    is-active) [ -e "$one" ] || exit 3 ;;
    stop | kill) rm -f -- $one ;;
    start) : >>"$one" ;;
    esac
done
[ -n "$seen" ] || [ "$verb" = is-active ] || fail "Too few arguments."
"""
TIMEOUT = """
echo timed >>"$world/timed"
while [ "$1" != systemctl ]; do shift; done
[ ! -e "$world/hangs" ] || [ "$2" != "$(cat "$world/hangs")" ] || exit 124
exec "$@"
"""
SYSTEMD_RUN = f"""
import json, os, sys
argv = sys.argv[1:]
with open(world + "/calls", "a") as file:
    file.write({FIELD!r}.join(["systemd-run", *argv]) + {RECORD!r})
if os.path.exists(world + "/kill"):
    with open(world + "/calls") as calls, open(world + "/kill") as kill:
        if calls.read().count({RECORD!r}) == int(kill.read()):
            os.kill(os.getppid(), 9)
            sys.exit(1)
options = dict(one[2:].partition("=")[::2] for one in argv if one.startswith("--"))
timer = world + "/units/" + options["unit"] + ".timer"
if os.path.exists(timer):
    sys.exit("unit was already loaded")
command = argv[[n for n, one in enumerate(argv) if not one.startswith("--")][0]:]
with open(timer, "w") as file:
    file.write(json.dumps([int(options["on-active"]), command]))
"""
