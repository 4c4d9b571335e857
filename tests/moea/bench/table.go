package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"stalloc/tests/moea/maf"
)

// result is what one run came to.
type result struct {
	Problem     string  `json:"problem"`
	Objectives  int     `json:"objectives"`
	Algorithm   string  `json:"algorithm"`
	Seed        int     `json:"seed"`
	IGD         float64 `json:"igd"`
	Hypervolume float64 `json:"hypervolume"`
}

type group struct {
	algorithm, problem string
	objectives         int
}

// printTable prints the medians of the runs that come in, a row a problem.
func printTable([]string) error {
	var algorithms []string
	igd, volume := map[group][]float64{}, map[group][]float64{}
	for in := json.NewDecoder(os.Stdin); ; {
		var r result
		if err := in.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("the results: %w", err)
		}
		if !slices.Contains(algorithms, r.Algorithm) {
			algorithms = append(algorithms, r.Algorithm)
		}
		g := group{r.Algorithm, r.Problem, r.Objectives}
		igd[g], volume[g] = append(igd[g], r.IGD), append(volume[g], r.Hypervolume)
	}
	slices.Sort(algorithms)
	fmt.Print("| problem, objectives |")
	for _, a := range algorithms {
		fmt.Printf(" %s: IGD | hypervolume | seeds |", a)
	}
	fmt.Print("\n|---|")
	for range algorithms {
		fmt.Print("--:|--:|--:|")
	}
	fmt.Println()
	for m := 2; m <= 20; m++ {
		for _, problem := range maf.Names() {
			row, any := fmt.Sprintf("| %s, %d |", problem, m), false
			for _, a := range algorithms {
				g := group{a, problem, m}
				if igd[g] == nil {
					row += " | | 0 |"
					continue
				}
				any = true
				row += fmt.Sprintf(" %.4f | %.4f | %d |", median(igd[g]), median(volume[g]), len(igd[g]))
			}
			if any {
				fmt.Println(row)
			}
		}
	}
	return nil
}

// median returns the middle of values, or the mean of the two in the middle.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}
