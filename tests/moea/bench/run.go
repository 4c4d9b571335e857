package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strings"

	"stalloc/plan/solve/moea"
	"stalloc/tests/moea/maf"
)

// populations are those of the other algorithms' directions, by objectives.
var populations = map[int]int{5: 210, 10: 230, 15: 135}

// problemOf reads what every command is told: which function, with how many objectives.
func problemOf(command string, args []string, more func(*flag.FlagSet)) (*maf.Problem, error) {
	flags := flag.NewFlagSet(command, flag.ExitOnError)
	name := flags.String("problem", "MaF1", "one of "+strings.Join(maf.Names(), ", "))
	objectives := flags.Int("objectives", 5, "")
	more(flags)
	flags.Parse(args)
	return maf.New(*name, *objectives)
}

// run searches with MaOEA-CS, and prints the objectives of each point that it ends with.
func run(args []string) error {
	var seed uint64
	p, err := problemOf("run", args, func(f *flag.FlagSet) { f.Uint64Var(&seed, "seed", 1, "") })
	if err != nil {
		return err
	}
	s, err := moea.Minimize(moea.Problem{Lower: p.Lower, Upper: p.Upper, Objectives: p.Objectives},
		moea.Options{Evaluations: p.Budget(), Population: populations[p.Objectives], Seed: seed},
		func(points [][]float64) (f [][]float64) {
			for _, x := range points {
				f = append(f, p.Evaluate(x))
			}
			return f
		})
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for _, x := range s.Population() {
		for j, v := range x.F {
			if j > 0 {
				fmt.Fprint(out, ",")
			}
			fmt.Fprintf(out, "%.9g", v)
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}
