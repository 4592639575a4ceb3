#!/bin/sh
# @WRITTEN@
# Puts a new program of the agent in place, restarts the agent, and puts the old program back unless the new one
# proves itself in time. It needs neither of the two: whatever the new one does, this goes on. It is started by the
# upgrade and at every boot, and may be killed at any line: where it is can be told from which files there are.
#
#   PROGRAM.new                    nothing was replaced yet
#   PROGRAM.previous, and no .new  the new program is in place, and has to prove itself
#   neither                        the old program is back, or somebody deleted it
#
# A new program may take the host down as soon as it runs. So `tried` is on disk before the agent is restarted, and
# init has us count at boot before it starts the agent. Where that cannot be written down, as on a full disk, the old
# program comes back: the new one would be tried for ever.
#
# usage: guard.sh systemd|openrc|rc.d [count]
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
umask 077
init=$1
mode=${2:-guard}
state=@STATE@
service=nodemanager

# Not by output_log of OpenRC: the start-stop-daemon of Debian does not know that, and would not start us.
log=/var/log/nodemanager.log
if [ "$init" = openrc ] && { true >> "$log"; } 2>/dev/null; then
    exec >> "$log" 2>&1
fi

# PID 1, or a disk, may not answer, and the time goes on. By KILL, timeout ends itself as well, also where the one
# that it waits for cannot be ended.
within=
! timeout -s KILL 9 true 2>/dev/null || within="timeout -s KILL"

value() {
    sed -n "s/^$2=//p" "$state/$1" 2>/dev/null
}

# A moment that no change of the clock moves; without /proc, our own naps are counted.
naps=0
now() {
    if [ -r /proc/uptime ]; then
        read -r moment _ < /proc/uptime
        moment=${moment%%.*}
    else
        moment=$naps
    fi
}

# What we change is on disk. Not all there is: a network filesystem whose server is gone would never end. With a
# number, it fails after so many seconds.
flush() {
    ${1:+${within:+$within $1}} sync -f "$state" "${program%/*}" 2>/dev/null
    case $? in
        0) return 0 ;;
        137) return 1 ;; # the disk hangs
    esac
    ${1:+${within:+$within $1}} sync
}

nap() {
    sleep 1
    naps=$((naps + 1))
}

# Whole, or not there at all, also after a power cut.
note() {
    printf '%s\n' "$2" > "$state/$1.new" && flush "${3:-}" && mv -f "$state/$1.new" "$state/$1" && flush "${3:-}"
}

# With how many seconds the disk has, twice.
note_tried() {
    note tried "boot=$boot
began=$began
boots=$boots" "$1"
}

restart() {
    case $init in
        systemd)
            # A unit with a limit of starts may have reached it.
            ${within:+$within 5} systemctl reset-failed "$service" 2>/dev/null
            ${within:+$within 10} systemctl --no-block restart "$service"
            ;;
        openrc) rc-service "$service" restart ;;
        *) service "$service" onerestart ;; # also one that is not to be started at boot
    esac
}

# The agent alone, and at once: one that hangs would not listen to less. What it runs goes on.
kill_agent() {
    case $init in
        systemd)
            pid=$(${within:+$within 3} systemctl show --property=MainPID "$service" | sed 's/^MainPID=//')
            [ "${pid:-0}" = 0 ] || kill -KILL "$pid"
            ;;
        openrc)
            pid=$(cat "/run/$service.pid" 2>/dev/null)
            [ -z "$pid" ] || pkill -KILL -P "$pid"
            ;;
        *) pkill -KILL -F "/var/run/$service-agent.pid" ;;
    esac
}

# Why there is nothing to wait for any more; silence = there is. systemd alone can be asked.
lost() {
    [ "$init" = systemd ] || return 0
    told=$(${within:+$within 3} systemctl show --property=Job --property=ActiveState --property=NRestarts "$service") ||
        return 0
    case $told in
        *Job=[1-9]*) ;; # it is being started
        *ActiveState=failed*) echo "it ended, and is not started again" ;;
        *NRestarts=[3-9]* | *NRestarts=[1-9][0-9]*) echo "it ended several times" ;;
    esac
}

forget() {
    rm -f "$state/intent" "$state/proof" "$state/tried" "$state/tried.new" "$state/restarted"
}

proven() {
    [ "$(cat "$state/proof" 2>/dev/null)" = "$id" ]
}

finish() {
    echo "upgrade of the agent from $before to $after: $1${2:+: $2}"
    # On a full disk we wait: started anew, we would have to restart the agent again.
    until note outcome "id=$id
result=$1
message=$2" && forget; do
        nap
    done
    flush
    exit 0
}

# Somebody deleted the old program: there is no way back, and whatever runs is better than nothing.
strand() {
    echo "$program.previous is gone; the agent is left alone" >&2
    finish stranded "${1:+$1, and }somebody deleted $program.previous, so $before cannot come back: $after is in\
 place, and the agent was left alone; look whether it works, or upgrade again"
}

digest() {
    { sha256sum < "$1" || sha256 -q "$1"; } 2>/dev/null | cut -c-64
}

[ -f "$state/intent" ] || exit 0
id=$(value intent id) program=$(value intent program) seconds=$(value intent seconds)
before=$(value intent before) after=$(value intent after)
if [ -z "$id" ] || [ -z "$program" ] || [ -z "$seconds" ]; then
    echo "cannot read $state/intent; nothing is replaced" >&2
    rm -f "$state/intent"
    exit 0
fi
if [ "$(value outcome id)" = "$id" ]; then # all is done but for this
    forget
    exit 0
fi

# The upgrade was withdrawn, and not to the end; or somebody deleted the new program.
untouched() {
    [ ! -e "$state/tried" ] && [ ! -e "$program.new" ] && [ "$(digest "$program")" = "$(value intent old)" ]
}

now
began=$moment
boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
boots=$(value tried boots)
boots=${boots:-0}
before_us=$(value tried began)
uncounted=''
if [ ! -e "$state/tried" ]; then
    # We have started no agent yet that is the new program; if it is in place, init is about to.
    [ "$mode" != count ] || [ -e "$program.new" ] || [ ! -e "$program.previous" ] || untouched || note_tried 5 ||
        uncounted=yes
elif [ -n "$boot" ] && [ "$(value tried boot)" = "$boot" ] && [ "${before_us:-0}" -le "$moment" ]; then
    began=${before_us:-$moment} # we were killed, and the time has gone on
elif [ -n "$boot" ] || [ "$mode" = count ]; then # the host went down: the time begins anew, but not for ever
    boots=$((boots + 1))
    note_tried 5 || uncounted=yes
fi
why="it did not prove itself"
[ "$boots" -lt 3 ] || why="the host went down $boots times meanwhile"
[ -z "$uncounted" ] || why="the host went down meanwhile, and that could not be written down in $state"
enough=$uncounted
[ "$boots" -lt 3 ] || enough=yes
if [ "$mode" = count ]; then
    # Before the agent is started, which might take the host down again sooner than anybody could take it back.
    if [ -n "$enough" ] && [ -e "$program.previous" ] && [ ! -e "$program.new" ] && ! proven; then
        echo "$after is not tried again: $why; back to $before"
        mv -f "$program.previous" "$program" && flush 5
    fi
    exit 0
fi
if [ -e "$program.new" ]; then
    if [ ! -e "$program.previous" ]; then
        rm -f "$program.new"
        finish failed "somebody deleted $program.previous, without which there is no way back; nothing was replaced"
    fi
    if ! mv -f "$program.new" "$program"; then
        rm -f "$program.new"
        finish failed "the file could not be put in place"
    fi
    flush 5 # it is waited for once more before the agent is restarted
    echo "$program is $after now; it has $seconds s to prove itself, or $before comes back"
fi

noted='' begun='' asked=''
[ ! -e "$state/restarted" ] || begun=yes

# Once, but again where it fails: an agent that is not restarted is the old one, and proves nothing. While that one
# works, a disk that is slow may take the time that is left.
begin() {
    if [ -z "$noted" ]; then
        note_tried $((1 + (seconds - moment + began) / 2)) || return
        noted=yes
        now
        [ $((moment - began)) -lt "$seconds" ] || return
    fi
    if [ "$init" = systemd ]; then
        restart && restarted
    else # which wait for the old agent to end, and are not to be ended themselves: the service would be left half-way
        restart &
        asked=$!
    fi
}

restarted() {
    begun=yes
    note restarted "boot=$boot" 5
}

# Finds out how a restart ended that nobody waits for.
answered() {
    if [ -n "$asked" ] && ! kill -0 "$asked" 2>/dev/null; then
        ! wait "$asked" || restarted
        asked=''
    fi
}

if [ -e "$program.previous" ]; then
    ! untouched || finish failed "somebody deleted $program.new; nothing was replaced"
    while :; do
        ! proven || finish proven ""
        [ -z "$enough" ] || break
        answered
        now
        if [ $((moment - began)) -ge "$seconds" ]; then
            why="it did not prove itself within $seconds s"
            [ -n "$begun" ] || why="the agent could not be restarted within $seconds s"
            break
        fi
        if [ -z "$begun$asked" ]; then
            begin
        elif [ -n "$begun" ]; then
            gone=$(lost)
            if [ -n "$gone" ]; then
                why=$gone
                break
            fi
        fi
        nap
    done
    echo "$after comes to nothing: $why; back to $before"
    until mv -f "$program.previous" "$program"; do # not every init system would start us again
        [ -e "$program.previous" ] || strand "$why"
        nap
    done
    flush 5 # without it, the next boot goes on from here: the intent is still there
elif [ "$(digest "$program")" = "$(value intent new)" ]; then
    ! proven || finish proven ""
    strand ""
fi
kill_agent
for _ in 1 2 3 4 5; do
    ! restart || break
    nap
done
finish returned "$why"
