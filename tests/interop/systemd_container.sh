#!/bin/bash
# Boots a real systemd in a container on an overlay of this machine's own root, for tests. Runs as root, needs the
# package systemd-container, and takes two to three seconds. The container shares the network of the machine. Of the
# files that it writes, only those below the bound directories stay.
#
#   systemd_container.sh DIR boot [--bind FROM:TO]... [--] PREPARE...
#             runs `PREPARE... ROOT`, which may change the container's files below ROOT, then boots; stays in the
#             foreground until the container is off. If it is killed, the container ends too. Services that this
#             machine enables are not started
#   systemd_container.sh DIR ready         waits until it has booted
#   systemd_container.sh DIR exec CMD...   runs a command as its root
#
# DIR is a directory of the caller. DIR/console has the container's output.
set -eu -o pipefail

dir=$(cd "$1" && pwd -P); action=$2; shift 2

child() { tr -d ' ' 2>/dev/null <"/proc/$1/task/$1/children"; }

leader() {                                      # prints the pid of systemd, below unshare -> bash -> systemd-nspawn
  local pid i
  pid=$(cat "$dir/pid" 2>/dev/null)
  for i in 1 2 3; do pid=$(child "$pid" 2>/dev/null); done
  echo "$pid"
}

run_inside() {
  local pid
  pid=$(leader) && [ -n "$pid" ] || { echo "systemd_container.sh: the container of $dir is not up" >&2; return 125; }
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 nsenter -t "$pid" -m -u -i -p -n -- "$@"
}

boot() {
  local binds=()
  while [ $# -gt 0 ]; do
    case $1 in
      --bind) binds+=("--bind=$2"); shift 2 ;;
      --) shift; break ;;
      *) break ;;
    esac
  done
  # All mounts and processes are in this process's own namespaces, and end with it.
  mount -t tmpfs tmpfs "$dir/layers"
  mkdir "$dir/layers/upper" "$dir/layers/work"
  mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/layers/upper,workdir=$dir/layers/work" "$dir/root"
  rm -rf "$dir/root/etc/systemd/system"/*.wants "$dir/root/etc/systemd/user"/*.wants
  # without a machine id, systemd enables all services
  tr -d - </proc/sys/kernel/random/uuid >"$dir/root/etc/machine-id"
  find "$dir/root"/{lib,usr/lib}/systemd/system-generators/ ! -name 'systemd-*' ! -type d -delete
  [ $# -eq 0 ] || "$@" "$dir/root"
  systemd-nspawn --quiet --register=no --keep-unit --boot --directory="$dir/root" "${binds[@]}" \
    --resolv-conf=off --timezone=off --link-journal=no --console=pipe </dev/null >>"$dir/console" 2>&1
}

case $action in
  boot)
    mkdir -p "$dir/layers" "$dir/root"
    echo $$ >"$dir/pid"
    exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc -- \
      "$0" "$dir" boot-inside "$@" ;;
  boot-inside) boot "$@" ;;
  ready)
    for ((i = 0; i < 600; i++)); do
      if pid=$(cat "$dir/pid" 2>/dev/null) && [ ! -e "/proc/$pid/exe" ]; then
        echo "systemd_container.sh: it does not boot" >&2
        exit 1
      fi
      state=$(run_inside systemctl is-system-running 2>/dev/null || true)
      case $state in running | degraded) exit 0 ;; esac
      sleep 0.1
    done
    echo "systemd_container.sh: not up within a minute (${state:-no answer})" >&2
    exit 1 ;;
  exec) run_inside "$@" ;;
  *) echo "systemd_container.sh: unknown action $action" >&2; exit 2 ;;
esac
