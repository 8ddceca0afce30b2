#!/usr/bin/env bash
# Saves the platform's volumes into a folder, or loads them from it. Stop the services first: `down`, without -v.
#   docker/volumes.sh save FOLDER        one .tar a volume
#   docker/volumes.sh load FOLDER        the volumes must be empty or absent
# ENGINE is docker (the default) or podman. COMPOSE_PROJECT_NAME (sluice) begins the volumes' names, and
# SLUICE_IMAGE (sluice) is the image whose `tar` is used.
set -euo pipefail

usage() { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
[ $# -eq 2 ] || usage
engine=${ENGINE:-docker} project=${COMPOSE_PROJECT_NAME:-sluice} image=${SLUICE_IMAGE:-sluice} folder=$2

in_volume() { # in_volume VOLUME COMMAND...
  local volume=$1; shift
  "$engine" run --rm -i --network none --user 0 -v "${project}_$volume:/volume" -w /volume "$image" "$@"
}

made() { # made VOLUME: with Compose's labels, without which `down -v` would not delete it
  local name=${project}_$1
  "$engine" volume inspect "$name" >/dev/null 2>&1 || "$engine" volume create \
    --label "com.docker.compose.project=$project" --label "com.docker.compose.volume=$1" \
    --label "io.podman.compose.project=$project" "$name" >/dev/null
}

for volume in instance postgres kafka namenode datanode zookeeper airflow; do
  file=$folder/$volume.tar
  case $1 in
    save)
      mkdir -p "$folder"
      (umask 077; in_volume "$volume" tar --numeric-owner -c . </dev/null >"$file.part")
      mv "$file.part" "$file" ;;
    load)
      made "$volume"
      if [ -n "$(in_volume "$volume" ls -A </dev/null)" ]; then
        echo "$volume is not empty: delete it first ($engine volume rm ${project}_$volume)" >&2; exit 1
      fi
      in_volume "$volume" tar --numeric-owner -xp <"$file" ;;
    *) usage ;;
  esac
done
