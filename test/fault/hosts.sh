#!/usr/bin/env bash
# Several hosts on one machine, for tests over TCP: each has a network, a name and shared memory of its own, joined by a
# bridge. All of it lies in namespaces that end with the script; nothing outside them is touched, and no rights are
# needed where users may make namespaces.
#
#   source hosts.sh          first thing in a script: goes on inside
#   hosts_up 2               h1, h2
#   on_host h1 COMMAND...    there
#   over_hosts               flags for an mpirun on h1, in the array host_flags
#   link_down h2; link_up h2  the link: packets vanish, nobody is told
if [ -z "${INSIDE_HOSTS:-}" ]; then
  export INSIDE_HOSTS=1
  exec unshare --user --map-root-user --net --mount bash "$0" "$@"
fi

hosts_up() {
  mount -t tmpfs tmpfs /run && mkdir /run/netns || return 1
  echo '127.0.0.1 localhost' >hosts
  ip link add switch type bridge forward_delay 0 && ip link set switch up || return 1
  local i
  for i in $(seq "$1"); do
    ip netns add "h$i" && ip link add "link$i" type veth peer name eth0 netns "h$i" || return 1
    ip link set "link$i" master switch up
    ip -n "h$i" link set lo up
    ip -n "h$i" addr add "10.99.0.$i/24" dev eth0
    ip -n "h$i" link set eth0 up
    echo "10.99.0.$i h$i" >>hosts
  done
  mount --bind hosts /etc/hosts || return 1
  # what mpirun calls in place of ssh: AGENT [options] HOST COMMAND
  cat >agent <<EOC
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
host=\$1
shift
$(declare -f on_host)
on_host "\$host" /bin/sh -c "\$*"
EOC
  chmod +x agent
  # shellcheck disable=SC2034  # for those who source this
  host_flags=(--mca plm rsh --mca plm_rsh_agent "$PWD/agent" --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include eth0
    --mca btl_tcp_if_include eth0 --mca btl "tcp,vader,self" --mca osc "^ucx" --mca pml ob1)
}

on_host() {
  local host=$1
  shift
  # shellcheck disable=SC2016
  ip netns exec "$host" unshare --uts --ipc --mount sh -c 'hostname "$0"; mount -t tmpfs tmpfs /dev/shm; exec "$@"' "$host" "$@"
}

link_down() { ip link set "link${1#h}" down; }
link_up() { ip link set "link${1#h}" up; }
# kill_host HOST: every process of it
kill_host() {
  local process
  for process in $(ip netns pids "$1"); do kill -KILL "$process" 2>/dev/null; done
}
