package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"stalloc/tests/moea/indicator"
)

const (
	frontPoints = 10_000  // that IGD is measured by
	samples     = 100_000 // that hypervolume is counted by
)

// score reads a set of points, a line each, and prints as JSON how good it is.
func score(args []string) error {
	p, err := problemOf("score", args, func(*flag.FlagSet) {})
	if err != nil {
		return err
	}
	set, err := read(os.Stdin)
	if err != nil {
		return err
	}
	front := p.Front(frontPoints)
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"igd":         indicator.IGD(front, set),
		"hypervolume": indicator.NewVolume(front, samples).Of(set),
	})
}

func read(in io.Reader) (set [][]float64, err error) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var f []float64
		for _, text := range strings.Split(lines.Text(), ",") {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("point %d: %w", len(set)+1, err)
			}
			f = append(f, v)
		}
		set = append(set, f)
	}
	return set, lines.Err()
}
