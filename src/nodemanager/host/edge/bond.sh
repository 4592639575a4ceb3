#!/bin/sh
# Changes the mode of a bond, or puts back its files and its mode; alone, without agent, API or network.
#
#   bond.sh flip|restore|revert FOLDER BOND MODE PRIMARY MAC ROOT CARD...
#
# flip     makes it MODE, if FOLDER/armed is there: nothing is changed that nobody would put back
# restore  what the dead-man runs: takes FOLDER/armed, or leaves all as it is if somebody else took it. One that
#          is there and cannot be taken, as the disk is full or was made read-only, is no reason to do nothing
# revert   the same as restore, for one who has taken it already
#
# FOLDER/before has files as they were, FOLDER/absent the names of those that were not there, FOLDER/active the
# card that did send. A bond changes its mode only while it is down and has no cards, so it is empty for a
# moment; every line goes on after a failure, because a bond that is put together again in the wrong mode is
# better than one in pieces. Nothing that has to be done needs FOLDER to be writable. One at a time does it on
# a host, whatever the bond: systemd-networkd, which is stopped for it, is the same for all.
#
# A flip has FOLDER as its descriptor 8, and so has all that it runs: by that, whoever puts the bond back finds
# what hangs, and ends it. Times, in seconds:
#
#   35  the longest that systemd is waited for, for one answer: `ctl`
#   60  the longest that one waits for another who changes a bond. From its last look at FOLDER/armed, a flip
#       that goes on takes 55 at most: 5 for the bond, 35 until systemd-networkd is started, 15 until it sends.
#       So one that is still there after 60 does not go on, and is ended. A flip waits less where its dead-man
#       acts soon: NODEMANAGER_WAIT
#   10  what is killed gets to be gone, before the bond is put back all the same
set -u
verb=$1 folder=$2 bond=$3 mode=$4 primary=$5 mac=$6 root=$7
shift 7
files=$root/etc/systemd/network
runtime=$root/run/systemd/network
net=$root/sys/class/net
bonding=$net/$bond/bonding
networkd=systemd-networkd.service
ended=

ctl() { # nothing is waited for without end: whatever became of it, a bond in pieces is put together
    timeout -k 5 30 systemctl "$@"
}

knows_primary() {
    case $mode in active-backup | balance-tlb | balance-alb) ;; *) return 1 ;; esac
}

sender() { # the card that is to send: the one that did, unless a flip names a primary card
    knows_primary && [ -r "$folder/active" ] || return 0
    [ "$verb" = flip ] && [ -n "$primary" ] || cat "$folder/active"
}

has_mode() {
    read -r now _ <"$bonding/mode" && [ "$now" = "$mode" ]
}

is_so() { # whether it has the mode, and all cards, and is up
    has_mode || return 1
    read -r flags <"$bonding/../flags" && [ $((flags & 1)) = 1 ] || return 1
    have=$(cat "$bonding/slaves") || return 1
    for card in "$@"; do
        case " $have " in *" $card "*) ;; *) return 1 ;; esac
    done
}

primary_is_so() { # of a flip, none given is any; of all else, it is none
    knows_primary || return 0
    [ -n "$primary" ] || [ "$verb" != flip ] || return 0
    now=$(cat "$bonding/primary") && [ "$now" = "$primary" ]
}

set_primary() {
    if [ -n "$primary" ]; then ip link set dev "$bond" type bond primary "$primary"; else echo >"$bonding/primary"; fi
}

keep_address() { # an empty bond gets another one, and then that of its first card
    [ -n "$mac" ] || return 0
    read -r now <"$bonding/../address" && [ "$now" = "$mac" ] || ip link set dev "$bond" address "$mac"
}

put_together() {
    failed=0
    ip link set dev "$bond" down || failed=1
    for card in "$@"; do ip link set dev "$card" nomaster || failed=1; done
    has_mode || ip link set dev "$bond" type bond mode "$mode" || failed=1
    for card in "$@"; do
        ip link set dev "$card" down || failed=1
        ip link set dev "$card" master "$bond" || failed=1
    done
    keep_address || failed=1
    ip link set dev "$bond" up || failed=1
    return "$failed"
}

keep_primary_unsaid() ( # systemd-networkd still reads files that name a primary card: it would fail it, and
    # leave it down, as the kernel refuses one in this mode. A boot before the commit takes this away
    ! knows_primary || exit 0
    umask 022
    for new in "$folder"/staged/*.network; do
        [ -f "$new" ] || continue
        over=$runtime/${new##*/}.d
        mkdir -p "$over" && printf '[Network]\nPrimarySlave=no\n' >"$over/zz-nodemanager-$bond.conf" || exit 1
    done
)

networkd_off() { # else it takes cards back that it sees leave; its socket would start it again
    running=
    for unit in systemd-networkd.socket "$networkd"; do
        ctl is-active --quiet "$unit" || continue
        running=1 stopped="$stopped $unit"
        echo "$unit" >>"$folder/stopped"
    done
    [ -n "$running" ] || return 0
    ctl stop systemd-networkd.socket
    # As a restart ends it: by a plain stop it gives back the leases, and so the addresses, of all other cards.
    ctl kill --signal=SIGUSR2 "$networkd"
    left=10
    while ctl is-active --quiet "$networkd" && [ "$left" -gt 0 ]; do
        left=$((left - 1))
        sleep 1
    done
    ctl stop "$networkd"
}

networkd_on() { # also what an earlier run stopped that was killed; it brings back addresses and routes
    [ ! -s "$folder/stopped" ] || stopped="$stopped $(cat "$folder/stopped")"
    [ -z "$ended" ] || stopped="$stopped $networkd" # the disk may not have taken what that flip wrote down
    [ -z "$stopped" ] || ctl start $(printf '%s\n' $stopped | sort -u) || return 1
    [ ! -e "$folder/stopped" ] || rm -f "$folder/stopped" || :
}

has_link() {
    read -r now <"$net/$1/carrier" && [ "$now" = 1 ] &&
        read -r now <"$net/$1/bonding_slave/mii_status" && [ "$now" = up ]
}

sends() {
    now=$(cat "$bonding/active_slave") && [ "$now" = "$1" ]
}

keep_sending() { # the kernel takes the card whose link is there first, and the far end of a cable may not listen
    # to that one. Looked at for a while: systemd-networkd that starts takes cards down for a moment
    [ -n "$1" ] || return 0
    calm=0 left=15
    [ -n "$stopped" ] || calm=2
    until sends "$1" && calm=$((calm + 1)) && [ "$calm" -ge 3 ]; do
        [ "$left" -gt 0 ] || break
        left=$((left - 1))
        sends "$1" || { calm=0; ! has_link "$1" || ip link set dev "$bond" type bond active_slave "$1"; }
        sleep 1
    done
    sends "$1" && return 0
    echo "$1 of $bond did send, and does not send now" >&2
    ! has_link "$1" # a dead cable is no failure of what is done here
}

may_change() { # a flip only as long as somebody would put it back: who hung may wake up when that is done
    [ "$verb" != flip ] || [ -e "$folder/armed" ] || { echo "it was put back meanwhile" >&2; return 1; }
}

move() { # again when it is put back, as a card that somebody adds meanwhile keeps the mode as it is
    tries=3
    [ "$verb" != flip ] || tries=1
    while :; do
        networkd_off
        may_change || return 1
        put_together "$@"
        is_so "$@" && return "$failed"
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 1
    done
}

change() {
    status=0 stopped=
    [ -d "$bonding" ] || { echo "there is no bond $bond" >&2; status=1; }
    if [ -d "$bonding" ] && ! is_so "$@"; then
        move "$@" || status=1
    fi
    if [ -d "$bonding" ] && ! primary_is_so; then
        may_change && set_primary && primary_is_so || status=1
    fi
    networkd_on || status=1
    [ ! -d "$bonding" ] || keep_sending "$(sender)" || status=1
    return "$status"
}

put_back_files() { # the power may go between two: no primary card is named for a mode that knows none
    failed=0
    if knows_primary; then
        set -- "$folder"/before/*.netdev "$folder"/before/*.network
    else
        set -- "$folder"/before/*.network "$folder"/before/*.netdev
    fi
    for kept in "$@"; do
        [ -f "$kept" ] || continue
        name=${kept##*/}
        cmp -s "$kept" "$files/$name" && continue
        cp -p "$kept" "$files/.$name.nodemanager" && mv -f "$files/.$name.nodemanager" "$files/$name" || failed=1
    done
    for kept in "$folder"/absent/*; do
        [ ! -f "$kept" ] || rm -f "$files/${kept##*/}" || failed=1
    done
    sync
    return "$failed"
}

end_flips() { # each pass finds what the one before it was too early for; what is gone has no descriptors
    left=10
    while [ "$left" -gt 0 ]; do
        there=
        for one in /proc/[0-9]*/fd/8; do
            # shellcheck disable=SC3013 # -ef: dash, bash and busybox have it
            [ "$one" -ef "$folder" ] || continue
            one=${one#/proc/}
            there=1 ended=1
            kill -KILL "${one%%/*}"
        done
        [ -n "$there" ] || return 0
        left=$((left - 1))
        sleep 1
    done
}

take_turn() { # once it is ours, a flip of this bond only waits, or hangs; neither may go on when we are done.
    # Who puts back another bond is left alone, however long that takes: nobody else would
    late=
    flock -w 60 9 || late=1
    end_flips
    [ -z "$late" ] || flock -w 10 9 || echo "somebody else has been changing a bond for a minute; going on" >&2
}

if [ "$verb" = restore ]; then
    [ -e "$folder/armed" ] || exit 0
    mv "$folder/armed" "$folder/fired" || [ -e "$folder/armed" ] || exit 0
    rm -f "$folder/restored" # how an earlier putting back ended, whose last word was not written
fi
[ ! -r "${folder%/*}" ] || exec 9<"${folder%/*}"
case $verb in
flip)
    exec 8<"$folder"
    flock -w "${NODEMANAGER_WAIT:-60}" 9 || { echo "somebody else is changing a bond of this host" >&2; exit 4; }
    [ -e "$folder/armed" ] || { echo "nothing is armed, or it was put back" >&2; exit 3; }
    keep_primary_unsaid || exit 1
    change "$@"
    ;;
restore | revert)
    take_turn
    rm -f "$runtime"/*.network.d/zz-nodemanager-"$bond".conf
    put_back_files
    kept=$?
    change "$@" && status=$kept || status=1
    echo "$status" >"$folder/restored.new" && mv -f "$folder/restored.new" "$folder/restored"
    exit "$status"
    ;;
*)
    echo "cannot $verb a bond" >&2
    exit 2
    ;;
esac
