#!/usr/bin/env bash
#SBATCH --job-name=tritonforge
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --output=tritonforge-%j.log
#SBATCH --signal=B:TERM@600
# One run over the nodes of an allocation: the first node is localhost of the placement, the others are reached by ssh,
# which Slurm's pam_slurm_adopt admits to nodes of a job of one's own.
#   sbatch docs/clusters/slurm.sh recipes/qwen3-8b-rl-4-4-2.yaml [ARGUMENTS OF tritonforge run ...]
# Ten minutes before the end of its time the run saves and stops; the same command goes on with it.
set -euo pipefail
recipe=${1:?a recipe}
shift
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
others=$(IFS=,; echo "${nodes[*]:1}")
hosts="[localhost${others:+,$others}]"
output=${TRITONFORGE_OUTPUT:-runs/$(basename "$recipe" .yaml)}
resume=()
[ ! -e "$output/recipe.yaml" ] || resume=(--resume)
# The recipe's groups name hosts of its own where they name any: the evaluation group's is the last node here.
tritonforge run "$recipe" --launcher ssh --output "$output" "${resume[@]}" \
  --set "placement.hosts=$hosts" --set "placement.eval.hosts=[${nodes[-1]/#${nodes[0]}/localhost}]" "$@" &
run=$!
trap 'kill -TERM "$run"' TERM
code=0
wait "$run" || code=$?
while kill -0 "$run" 2>/dev/null; do  # a signal ended the wait, not the run
  code=0
  wait "$run" || code=$?
done
exit "$code"
