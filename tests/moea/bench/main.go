// Bench is the part of `make bench-moea` that is written in Go: it evaluates functions for other
// programs, runs MaOEA-CS on them, says how good a set is, and prints the medians of runs.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
)

func main() {
	commands := map[string]func([]string) error{"serve": serve, "run": run, "score": score,
		"table": printTable}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "bench: say what to do: serve, run, score or table")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// serve evaluates what comes in: a number of points, then their variables; out go their objectives.
func serve(args []string) error {
	p, err := problemOf("serve", args, func(*flag.FlagSet) {})
	if err != nil {
		return err
	}
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<20)
	write := func(data any) { binary.Write(out, binary.LittleEndian, data) }
	write([]uint32{uint32(len(p.Lower)), uint32(p.Budget())})
	write(p.Lower)
	write(p.Upper)
	for {
		if err := out.Flush(); err != nil {
			return err
		}
		var n uint32
		if err := binary.Read(in, binary.LittleEndian, &n); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		x := make([]float64, int(n)*len(p.Lower))
		if err := binary.Read(in, binary.LittleEndian, x); err != nil {
			return err
		}
		for ; len(x) > 0; x = x[len(p.Lower):] {
			for _, v := range p.Evaluate(x[:len(p.Lower)]) {
				if math.IsNaN(v) {
					return fmt.Errorf("%s of %v is not a number", p.Name, x[:len(p.Lower)])
				}
				write(v)
			}
		}
	}
}
