package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// printTable prints the medians of what score has written, a row a problem.
func printTable([]string) error {
	var rows []string
	var algorithms []string
	cells := map[string]string{}
	for in := json.NewDecoder(os.Stdin); ; {
		var r result
		if err := in.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("the results: %w", err)
		}
		row := fmt.Sprintf("%s, %d", r.Problem, r.Objectives)
		if !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
		if !slices.Contains(algorithms, r.Algorithm) {
			algorithms = append(algorithms, r.Algorithm)
		}
		cells[row+r.Algorithm] = fmt.Sprintf("%.4f | %.4f | %d",
			median(r.IGD), median(r.Volume), len(r.IGD))
	}
	fmt.Print("| problem, objectives |")
	for _, a := range algorithms {
		fmt.Printf(" %s: IGD | hypervolume | seeds |", a)
	}
	fmt.Print("\n|---|")
	for range algorithms {
		fmt.Print("--:|--:|--:|")
	}
	for _, row := range rows {
		fmt.Printf("\n| %s |", row)
		for _, a := range algorithms {
			cell := cells[row+a]
			if cell == "" {
				cell = "| | 0"
			}
			fmt.Printf(" %s |", cell)
		}
	}
	fmt.Println()
	return nil
}

// median returns the middle of values, or the mean of the two in the middle.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}
