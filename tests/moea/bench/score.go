package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"stalloc/tests/moea/indicator"
	"stalloc/tests/moea/maf"
)

const (
	frontPoints = 10_000  // that IGD is measured by
	samples     = 100_000 // that hypervolume is counted by
)

// result is what the seeds of one algorithm came to on one problem.
type result struct {
	Problem    string    `json:"problem"`
	Objectives int       `json:"objectives"`
	Algorithm  string    `json:"algorithm"`
	IGD        []float64 `json:"igd"` // by seed
	Volume     []float64 `json:"hypervolume"`
}

// score prints a line of JSON for each problem and algorithm below a folder.
func score(args []string) error {
	flags := flag.NewFlagSet("score", flag.ExitOnError)
	dir := flags.String("dir", "build/moea", "")
	only := flags.String("problems", "", "")
	flags.Parse(args)
	paths, err := filepath.Glob(filepath.Join(*dir, "*", "*.csv"))
	if err != nil {
		return err
	}
	type group struct {
		problem    string
		objectives int
	}
	groups := map[group][]string{}
	for _, path := range paths {
		part := strings.Split(strings.TrimSuffix(filepath.Base(path), ".csv"), "-")
		m, err := strconv.Atoi(part[1])
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if *only == "" || slices.Contains(strings.Split(*only, ","), part[0]) {
			groups[group{part[0], m}] = append(groups[group{part[0], m}], path)
		}
	}
	order := maf.Names()
	for m := 2; m <= 20; m++ {
		for _, name := range order {
			if files := groups[group{name, m}]; len(files) > 0 {
				if err := scoreProblem(name, m, files); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func scoreProblem(name string, m int, paths []string) error {
	p, err := maf.New(name, m)
	if err != nil {
		return err
	}
	front := p.Front(frontPoints)
	volume := indicator.NewVolume(front, samples)
	by := map[string]*result{}
	var results []*result
	// Seed 2 comes before 10.
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	for _, path := range paths {
		set, err := read(path)
		if err != nil {
			return err
		}
		algorithm := filepath.Base(filepath.Dir(path))
		r := by[algorithm]
		if r == nil {
			r = &result{Problem: name, Objectives: m, Algorithm: algorithm}
			by[algorithm] = r
			results = append(results, r)
		}
		r.IGD = append(r.IGD, indicator.IGD(front, set))
		r.Volume = append(r.Volume, volume.Of(set))
	}
	slices.SortFunc(results,
		func(a, b *result) int { return cmp.Compare(a.Algorithm, b.Algorithm) })
	out := json.NewEncoder(os.Stdout)
	for _, r := range results {
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func read(path string) (set [][]float64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var f []float64
		for _, text := range strings.Split(lines.Text(), ",") {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			f = append(f, v)
		}
		set = append(set, f)
	}
	return set, lines.Err()
}
