#!/bin/sh
# Weights over TCP beside iperf3, in turns, between two network namespaces of this machine joined by a veth pair.
#   bench/weight_tcp.sh BUILD [rounds] [MiB] [streams] [rate of tc, such as 10gbit; empty: the bare pair]
# A line a round: Gbit/s of iperf3, of ours, and the ratio; then the medians. Needs root, iproute2 and iperf3.
set -eu
build=$1 rounds=${2:-7} mib=${3:-2048} streams=${4:-4} rate=${5:-}
a=tfwa$$ b=tfwb$$
pids=
clean() {
  # shellcheck disable=SC2086  # several
  [ -z "$pids" ] || kill $pids 2>/dev/null || true
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
}
trap clean EXIT
ip netns add "$a"
ip netns add "$b"
ip link add "v$a" netns "$a" type veth peer name "v$b" netns "$b"
for side in "$a 10.213.77.1" "$b 10.213.77.2"; do
  # shellcheck disable=SC2086  # a name and an address
  set -- $side
  ip -n "$1" addr add "$2/24" dev "v$1"
  ip -n "$1" link set "v$1" up
  ip -n "$1" link set lo up
  [ -z "$rate" ] || ip netns exec "$1" tc qdisc add dev "v$1" root tbf rate "$rate" burst 4mb latency 20ms
done
fifo=$(mktemp -u)
mkfifo "$fifo"
ip netns exec "$a" "$build/bench/weight_tcp" serve 10.213.77.1 7001 "$mib" <"$fifo" >"$fifo.out" &
pids=$!
exec 3>"$fifo"
rm "$fifo"
ip netns exec "$a" iperf3 -s -p 7002 >/dev/null &
pids="$pids $!"
until grep -q ready "$fifo.out" 2>/dev/null && ip netns exec "$a" ss -Hltn | grep -q 7002; do sleep 0.1; done
rm -f "$fifo.out"
results=$(mktemp)
for round in $(seq "$rounds"); do
  theirs=$(ip netns exec "$b" iperf3 -c 10.213.77.1 -p 7002 -R -P "$streams" -n "${mib}M" -J |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"] / 1e9)')
  ours=$(ip netns exec "$b" "$build/bench/weight_tcp" fetch 10.213.77.1 7001 "$streams" "$mib")
  echo "$round $theirs $ours" | tee -a "$results" |
    awk '{printf "round %d: iperf3 %.2f, ours %.2f Gbit/s (%.2f CPU s), ratio %.3f\n", $1, $2, $3, $4, $3 / $2}'
done
python3 - "$results" <<'END'
import statistics, sys
rows = [list(map(float, line.split())) for line in open(sys.argv[1])]
ratios = sorted(row[2] / row[1] for row in rows)
print(f"medians: iperf3 {statistics.median(r[1] for r in rows):.2f}, ours {statistics.median(r[2] for r in rows):.2f} "
      f"Gbit/s, ratio {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
END
rm -f "$results"
