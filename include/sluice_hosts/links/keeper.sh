#!/bin/sh
# Keeps one agent, or one job, on this host:
#   keeper status | start | stop SECONDS [drained] | hold | release | listens PORT | prune
#
# It lies in <agent>/versions/<version>, beside the agent's configuration or the job's `start`, and <agent>/current is a link to the
# version in use. <agent>/state is the agent's own and outlives versions: the process's record, how far each file was
# read, the channel, where the collectors are, and `clean` if the channel held nothing when the agent ended. A process
# is known by its number, its start in the kernel's ticks and the boot, because a number alone is used again. The lock
# is held until the record is written, so two starts never make two processes.
# Exit status 75: another order, or the agent's end, takes too long; order it again later.
set -u
umask 077

here=$(cd "$(dirname "$0")" && pwd -P)
agent=$(dirname "$(dirname "$here")")
base=$(dirname "$(dirname "$agent")")
state=$agent/state
record=$state/process

boot() { cat /proc/sys/kernel/random/boot_id; }

# When process $1 began; nothing if it is gone.
born() {
  line=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  # shellcheck disable=SC2086  # the fields behind the command's name, apart
  set -- ${line##*) }
  case $1 in Z | X) ;; *) echo "${20}" ;; esac
}

alive() {
  [ -f "$record" ] && read -r pid ticks booted since version <"$record" || return 1
  [ "$booted" = "$(boot)" ] && [ "$(born "$pid")" = "$ticks" ]
}

later() {
  echo "$1" >&2
  exit 75
}

lock() {
  mkdir -p "$state/logs"
  exec 9>"$agent/lock"
  flock -w 10 9 || later "another order is at work: $agent/lock is held"
}

case ${1:-} in
  status)
    if alive; then
      echo "alive $pid $(($(date +%s) - since)) $version"
    elif [ -f "$record" ]; then
      echo "dead ${pid:-0} 0 ${version:--}" # a record that was torn says neither
    else
      echo "stopped 0 0 -"
    fi
    [ ! -f "$state/hold" ] || echo held
    [ -d "$state/channel" ] && [ ! -f "$state/clean" ] || echo clean
    [ ! -f "$state/collectors" ] || while read -r line; do echo "at $line"; done <"$state/collectors"
    ;;
  start)
    lock
    alive && exit 0
    rm -f "$state/hold"
    [ ! -f "$state/logs/out" ] || mv "$state/logs/out" "$state/logs/out.1"
    setsid sh "$here/keeper" run </dev/null >"$state/logs/out" 2>&1 &
    exec 9>&-
    flock -w 5 "$agent/lock" true || later "the agent's start is not recorded yet"
    alive || {
      echo "the agent ended at once: $(tail -c 300 "$state/logs/out")" >&2
      exit 1
    }
    ;;
  run) # by `start` alone; it has the lock
    cd "$state" || exit 1
    # Without a record it would be started again while it runs.
    echo "$$ $(born $$) $(boot) $(date +%s) $(basename "$here")" >"$record.new" &&
      sync "$record.new" && mv "$record.new" "$record" || exit 1
    rm -f "$state/clean"
    exec 9>&-
    [ ! -f "$here/start" ] || exec sh "$here/start"
    exec "$(cat "$here/java")" "@$here/java.args"
    ;;
  stop)
    lock
    if alive; then
      kill "$pid"
      left=$2
      while alive && [ "$left" -gt 0 ]; do
        sleep 1
        left=$((left - 1))
      done
      ! alive || kill -9 "$pid"
      left=5
      while alive; do
        [ "$left" -gt 0 ] || later "the agent, pid $pid, does not end: is its disk stuck?"
        sleep 1
        left=$((left - 1))
      done
    fi
    [ "${3:-}" != drained ] || : >"$state/clean"
    rm -f "$record"
    ;;
  hold) : >"$state/hold" ;;
  release) rm -f "$state/hold" ;;
  listens) # whether it is the agent that listens at that port, and no other user's process
    if alive; then
      at=$(printf ':%04X' "$2")
      for inode in $(awk -v at="$at" '$4 == "0A" && substr($2, length($2) - 4) == at {print $10}' \
        "/proc/$pid/net/tcp" "/proc/$pid/net/tcp6" 2>/dev/null); do
        # shellcheck disable=SC2010  # one process for all links, not one for each
        ! ls -l "/proc/$pid/fd" | grep -qF "socket:[$inode]" || exit 0
      done
    fi
    echo "it is not the agent that listens at port $2" >&2
    exit 1
    ;;
  prune) # versions that are not in use, jars that no version names, and copies that were given up
    rm -rf "$agent"/versions/.*.new
    version=
    alive || :
    for old in "$agent"/versions/*; do
      [ "$old" = "$here" ] || [ "$(basename "$old")" = "$version" ] || rm -rf "$old"
    done
    case $agent in "$base"/agents/*) ;; *) exit 0 ;; esac # a job has no jars, and a deployment may copy some now
    rm -rf "$base"/lib/.*.new
    for old in "$base"/lib/*; do
      grep -qsF "/lib/$(basename "$old")/" "$base"/agents/*/versions/*/java.args || rm -rf "$old"
    done
    ;;
  *)
    echo "usage: keeper status | start | stop SECONDS [drained] | hold | release | listens PORT | prune" >&2
    exit 2
    ;;
esac
