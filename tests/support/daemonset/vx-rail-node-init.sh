#!/bin/sh
# One pod of the DaemonSet on one node, in POSIX sh. It speaks HTTP with a real API, as a pod does: with the token
# and the CA that a kubelet mounts ($SECRETS), by curl, or by kubectl where there is no curl ($CLIENT).
#
# It does nothing by itself. A line on stdin is "SECONDS COMMAND [WORDS]", SECONDS is what its clock says, and the
# answer on stdout comes when the API has all of it: "ok ...", "refused ..." or "failed ...".
#
#   begin              write the first state, unless there is one
#   step               go on by one state: write it, tell of it as an Event, give a sign of life
#   skip STATE         go on to a state at once, as if nobody had looked at those between
#   back               the same as a step, backwards, and say so; from $NO_WAY_BACK on it stops instead, and warns
#   beat               give a sign of life
#   warn REASON TEXT   warn as an Event
#   say PART WORD      say how a part is, from now on
#   lose state|beats   delete a ConfigMap of its own
#   fault NAME [WORD]  from now on, something is wrong (or $FAULT, from the start on):
#     truncated          its state is cut off in the middle
#     unknown WORD       it names its state so, which is no state
#     regressed          a step goes back, and does not say so
#     future SECONDS     its clock is ahead when it gives signs of life
#     silent             it gives none
#     stuck              a step changes nothing
#     rogue              it goes on from what it remembers, whoever has the lock, as a second DaemonSet would
#     killed WORD        a step is ended by SIGKILL: "unwritten" before its state is written, "written" after that
#     none               nothing is wrong any more
#
# All names are those of the EdgeProfile, and are in the environment: see environment() in pods.py. Only the states
# are here, too, as each of them would be code here; a test compares them with the profile.
set -u

STATES="Idle PreconditionsCheck AcquireLock SuspendMigration PinWorkloads SnapshotBaseline FreezePlacement
StageBondConfig QuiesceReplication ArmRollback FlipPeerBonds FlipPrimaryBond VerifyBondState VerifyPaths CommitBond
JoinStorage RaisePlacement WaitSync VerifyReplication ResumeWorkloads ReleaseLock"
FIRST=${STATES%% *}
TAKES_LOCK=AcquireLock
GIVES_LOCK=ReleaseLock
NO_WAY_BACK=RaisePlacement  # from the first new copy on, data is kept, and somebody is called

if [ "${1:-}" = states ]; then
  printf '%s\n' $STATES
  exit
fi

url="https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"
space=$(cat "$SECRETS/namespace")
set -- ${FAULT:-none}
fault=$1 detail=${2:-}
state= direction=forward holder=

. "${0%/*}/api.sh"

# --- what it writes

quoted() { # TEXT: as a text of JSON; it has no control characters
  printf '"%s"' "$(printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g')"
}

stamp() { # SECONDS
  date -u -d "@$1" +%Y-%m-%dT%H:%M:%SZ
}

state_text() { # STATE
  if [ -z "$STATE_FIELD" ]; then
    printf '%s' "$1"
    return
  fi
  printf '{"%s": "%s"' "$STATE_FIELD" "$1"
  [ -z "$DIRECTION_FIELD" ] || printf ', "%s": "%s"' "$DIRECTION_FIELD" "$direction"
  [ -z "$LOCK_FIELD" ] || printf ', "%s": "%s"' "$LOCK_FIELD" "$holder"
  printf '}'
}

write_state() {
  named=$state
  [ "$fault" != unknown ] || named=$detail
  text=$(state_text "$named")
  [ "$fault" != truncated ] || text=$(printf '%s' "$text" | cut -c "1-$((${#text} / 2))")
  data="$(quoted "$STATE_KEY"): $(quoted "$text")"
  for one in $HEALTH; do
    data="$data, $(quoted "${one%%=*}"): $(quoted "${one#*=}")"
  done
  put_map "$STATE_MAP" "$data"
}

beat() {
  [ "$fault" != silent ] || return 0
  at=$now
  [ "$fault" != future ] || at=$((now + detail))
  case $BEAT_FORMAT in
    rfc3339) text=$(stamp "$at") ;;
    unix) text=$at ;;
    unix-milli) text=${at}000 ;;
    *) text="sign $at" ;;
  esac
  [ -z "$BEAT_FIELD" ] || text="{\"$BEAT_FIELD\": \"$text\"}"
  put_map "$BEAT_MAP" "$(quoted "$BEAT_PREFIX$NODE"): $(quoted "$text")"
}

tell() { # TYPE REASON TEXT: an Event
  [ -n "$COMPONENT" ] || return 0
  about='"kind": "Namespace", "name": "'$space'", "namespace": "'$space'"'
  printf '{"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "vx-"}, "involvedObject": {%s},
    "type": "%s", "reason": "%s", "message": %s, "source": {"component": "%s", "host": "%s"},
    "lastTimestamp": "%s"}' \
    "$about" "$1" "$2" "$(quoted "$3")" "$COMPONENT" "$NODE" "$(stamp "$now")" >"$work/body"
  create events
}

# --- what it does

field() { # NAME: a field of the state that was read last; the JSON of a state is a text in JSON there
  sed -n 's/.*\\"'"$1"'\\": *\\"\([^\\"]*\)\\".*/\1/p' "$work/answer"
}

recall() { # read where it is: a pod that was killed, or another one, goes on from there
  read_map "$STATE_MAP"
  case $? in
    4) return 0 ;;
    1) return 1 ;;
  esac
  if [ -z "$STATE_FIELD" ]; then
    found=$(sed -n 's/.*"'"$STATE_KEY"'": *"\([^"\\]*\)".*/\1/p' "$work/answer")
  else
    found=$(field "$STATE_FIELD")
  fi
  known "$found" || return 0  # what cannot be read is not believed, and what it knew before is
  state=$found
  [ -z "$DIRECTION_FIELD" ] || direction=$(field "$DIRECTION_FIELD")
  [ -z "$LOCK_FIELD" ] || holder=$(field "$LOCK_FIELD")
}

known() { # STATE
  for one in $STATES; do
    [ "$one" != "$1" ] || return 0
  done
  return 1
}

beside() { # STATE DISTANCE: the state so far behind it; after the last one comes the first
  number=0 place=0
  for one in $STATES; do
    number=$((number + 1))
    [ "$one" != "$1" ] || place=$number
  done
  wanted=$(((place - 1 + $2 + number) % number + 1)) number=0
  for one in $STATES; do
    number=$((number + 1))
    [ "$number" -ne "$wanted" ] || printf '%s' "$one"
  done
}

reached() { # STATE: whether it is there, or further
  seen=no
  for one in $STATES; do
    [ "$one" != "$1" ] || seen=yes
    [ "$one" != "$state" ] || break
  done
  [ "$seen" = yes ]
}

begin() {
  recall && [ -n "$state" ] && return 0
  state=$FIRST
  write_state
}

enter() { # STATE: what every step is made of, in this order
  die unwritten
  state=$1
  write_state || return 1
  die written
  tell Normal StateChanged "it is at $state, $direction" || return 1
  beat
}

die() { # WORD: in the middle of a step, if it has to
  if [ "$fault" = killed ] && [ "$detail" = "$1" ]; then kill -s KILL $$; fi
}

may() { # whether nobody else is at work: who has the lock decides
  [ -z "$holder" ] || [ "$holder" = "$NODE" ] || [ "$fault" = rogue ]
}

step() {
  [ "$fault" = rogue ] || recall || return 1
  [ -n "$state" ] || { why="there is no state to go on from" && return 2; }
  may || { why="$holder has the lock" && return 2; }
  [ "$fault" != stuck ] || return 0
  direction=forward
  if [ "$fault" = regressed ]; then
    enter "$(beside "$state" -1)"
    return
  fi
  next=$(beside "$state" 1)
  case $next in
    "$TAKES_LOCK") holder=$NODE ;;
    "$GIVES_LOCK") holder= ;;
  esac
  enter "$next"
}

skip() { # STATE
  recall || return 1
  state=$1 direction=forward holder=
  if reached "$TAKES_LOCK" && [ "$state" != "$GIVES_LOCK" ]; then holder=$NODE; fi
  enter "$state"
}

back() {
  recall || return 1
  may || { why="$holder has the lock" && return 2; }
  [ "$state" != "$FIRST" ] || { why="it does nothing" && return 2; }
  if reached "$NO_WAY_BACK"; then
    tell Warning Halted "there is no way back from $state: data is kept as it is, and somebody has to look" || return 1
    why="there is no way back from $state"
    return 2
  fi
  direction=$ROLLBACK_WORD
  [ "$state" != "$TAKES_LOCK" ] || holder=
  state=$(beside "$state" -1)
  [ "$state" != "$FIRST" ] || direction=forward  # there is nothing left to take back
  enter "$state"
}

say() { # PART WORD
  said=
  for one in $HEALTH; do
    [ "${one%%=*}" = "$1" ] || said="$said $one"
  done
  HEALTH="$said $1=$2"
  recall && write_state
}

obey() { # COMMAND [WORDS]
  why=
  case $1 in
    begin | step | back | beat) "$1" ;;
    warn) shift && reason=$1 && shift && tell Warning "$reason" "$*" ;;
    skip) skip "$2" ;;
    say) say "$2" "$3" ;;
    lose) if [ "$2" = state ]; then delete_map "$STATE_MAP"; else delete_map "$BEAT_MAP"; fi ;;
    fault) fault=$2 detail=${3:-} ;;
    *) why="there is no command $1" && return 2 ;;
  esac
}

set -f # words are no patterns of files
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
connect
while read -r now command; do
  # shellcheck disable=SC2086  # words, as they are given
  obey $command
  case $? in
    0) printf 'ok %s\n' "$state" ;;
    2) printf 'refused %s\n' "$why" ;;
    *) printf 'failed %s\n' "$(tr '\n' ' ' <"$work/error")" ;;
  esac
done
