#!/usr/bin/env bash
# Records traces of our own, five steps each, into a folder (by default tests/traces/own):
#
#     tests/gpu/record_traces.sh [FOLDER] [NAME...]
#
# Needs a GPU and PyTorch. The kernels are the usual ones, not the deterministic ones, which
# ask for memory that other runs do not need.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-tests/traces/own}
shift || true
names=${*:-fine_moe packed_varlen multiscale_resnet llama_dense}
most=1572864 # bytes of a file; larger ones do not belong into the tree
export PYTHONPATH=python${PYTHONPATH:+:$PYTHONPATH}
mkdir -p "$out"

options() {
	case $1 in
	fine_moe) echo train_moe.py --preset fine --layers 5 ;;
	packed_varlen) echo train_varlen.py --packed ;;
	multiscale_resnet) echo train_vision.py ;;
	multiscale_vit) echo train_vision.py --model vit ;;
	mixtral_loop) echo train_moe.py --preset mixtral ;;
	llama_dense) echo train_llama.py ;;
	*) echo "record_traces.sh: no trace is called $1" >&2; exit 2 ;;
	esac
}

failed=0
for name in $names; do
	read -r script arguments < <(options "$name")
	# shellcheck disable=SC2086 # the arguments are several words
	python3 -m stalloc.record --name "$name" -o "$out/$name.csv.gz" \
		"examples/$script" $arguments --steps 5 --no-deterministic
	size=$(stat -c %s "$out/$name.csv.gz")
	if ((size > most)); then
		echo "record_traces.sh: $out/$name.csv.gz has $size bytes, more than $most: fewer layers" >&2
		failed=1
	fi
done
ls -l "$out"
exit $failed
