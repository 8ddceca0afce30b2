#!/bin/sh
# Keeps one agent on this host: keeper status | start | stop SECONDS | hold | release | prune
#
# It lies in <agent>/versions/<version>, beside the agent's configuration, and <agent>/current is a link to the
# version in use. <agent>/state is the agent's own and outlives versions: the process's record, how far each file was
# read, and the channel. A process is known by its number, its start in the kernel's ticks and the boot, because a
# number alone is used again. The lock is held until the record is written, so two starts never make two processes.
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

lock() {
  mkdir -p "$state/logs"
  exec 9>"$agent/lock"
  flock 9
}

case ${1:-} in
  status)
    if alive; then
      echo "alive $pid $(($(date +%s) - since)) $version"
    elif [ -f "$record" ]; then
      echo "dead $pid 0 $version"
    else
      echo "stopped 0 0 -"
    fi
    [ ! -f "$state/hold" ] || echo held
    ;;
  start)
    lock
    alive && exit 0
    rm -f "$state/hold"
    [ ! -f "$state/logs/out" ] || mv "$state/logs/out" "$state/logs/out.1"
    setsid sh "$here/keeper" run </dev/null >"$state/logs/out" 2>&1 &
    exec 9>&-
    flock "$agent/lock" true
    ;;
  run) # by `start` alone; it has the lock
    cd "$state" || exit 1
    echo "$$ $(born $$) $(boot) $(date +%s) $(basename "$here")" >"$record.new"
    mv "$record.new" "$record"
    exec 9>&-
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
      while alive; do sleep 1; done
    fi
    rm -f "$record"
    ;;
  hold) : >"$state/hold" ;;
  release) rm -f "$state/hold" ;;
  prune) # versions that are not in use, and jars that no version names
    version=
    alive || :
    for old in "$agent"/versions/*; do
      [ "$old" = "$here" ] || [ "$(basename "$old")" = "$version" ] || rm -rf "$old"
    done
    for old in "$base"/lib/*; do
      grep -qsF "/lib/$(basename "$old")/" "$base"/agents/*/versions/*/java.args || rm -rf "$old"
    done
    ;;
  *)
    echo "usage: keeper status | start | stop SECONDS | hold | release | prune" >&2
    exit 2
    ;;
esac
