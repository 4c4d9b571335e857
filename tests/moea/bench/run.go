package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"stalloc/plan/solve/moea"
	"stalloc/tests/moea/maf"
)

// populations are those of the other algorithms' directions, by objectives.
var populations = map[int]int{5: 210, 10: 230, 15: 135}

// run searches with MaOEA-CS, and writes what each seed ends with.
func run(args []string) error {
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	problems := flags.String("problems", strings.Join(maf.Names(), ","), "")
	objectives := flags.String("objectives", "5,10,15", "")
	seeds := flags.Int("seeds", 11, "")
	dir := flags.String("dir", "build/moea/maoea-cs", "")
	flags.Parse(args)
	for _, m := range strings.Split(*objectives, ",") {
		n, err := strconv.Atoi(m)
		if err != nil {
			return fmt.Errorf("objectives: %w", err)
		}
		for seed := range *seeds {
			for _, name := range strings.Split(*problems, ",") {
				if err := one(*dir, name, n, seed+1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func one(dir, name string, objectives, seed int) error {
	path := filepath.Join(dir, fmt.Sprintf("%s-%d-%d.csv", name, objectives, seed))
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	p, err := maf.New(name, objectives)
	if err != nil {
		return err
	}
	s, err := moea.Minimize(moea.Problem{Lower: p.Lower, Upper: p.Upper, Objectives: objectives},
		moea.Options{Evaluations: p.Budget(), Population: populations[objectives],
			Seed: uint64(seed)},
		func(points [][]float64) (f [][]float64) {
			for _, x := range points {
				f = append(f, p.Evaluate(x))
			}
			return f
		})
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, x := range s.Population() {
		for j, v := range x.F {
			if j > 0 {
				out.WriteByte(',')
			}
			fmt.Fprintf(&out, "%.9g", v)
		}
		out.WriteByte('\n')
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(out.String()), 0o644)
}
