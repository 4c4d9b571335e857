package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// measured is what --sizes says: an option of the program, and the sizes to give it.
type measured struct {
	name  string
	sizes []int64
}

// programArguments checks the command line: recordings, or a program and its sizes. Nothing has run
// yet.
func (f *fitFlags) programArguments(_ *cobra.Command, args []string) error {
	if _, err := lookup(f.allocators); err != nil {
		return err
	}
	switch {
	case f.multiple < 1:
		return fmt.Errorf("--multiple %d: give a number of at least 1", f.multiple)
	case f.sizes == "" && len(args) > 0:
		return fmt.Errorf("%s: to run a program, say at which sizes: --sizes batch=4,8 %s; recordings are named by --at", args[0], args[0])
	case f.sizes == "":
		return nil
	case len(f.at) > 0:
		return errors.New("--sizes and --at are two ways to say the same: give one of them")
	case len(args) == 0:
		return fmt.Errorf("--sizes %s: name the program to run after it, such as train.py", f.sizes)
	case f.steps < 3:
		return fmt.Errorf("--steps %d: the first two steps tell nothing, give at least 3", f.steps)
	}
	m, err := f.measured()
	if err == nil && slices.Min(m.sizes) == slices.Max(m.sizes) {
		err = fmt.Errorf("--sizes %s: one size alone does not tell what grows with it: give two or more", f.sizes)
	}
	return err
}

func (f *fitFlags) measured() (m measured, err error) {
	name, list, found := strings.Cut(f.sizes, "=")
	m.name = name
	for _, text := range strings.Split(list, ",") {
		size, ok := parseSize(strings.TrimSpace(text))
		if !found || name == "" || !ok {
			return m, fmt.Errorf("--sizes %s: write the program's option and whole sizes of 1 or more: --sizes batch=4,8,12", f.sizes)
		}
		m.sizes = append(m.sizes, size)
	}
	return m, nil
}

// commandLine is the program's at a size: {name} stands for it, else --name SIZE is added.
func (m measured) commandLine(args []string, size int64) []string {
	number, hole, there := strconv.FormatInt(size, 10), "{"+m.name+"}", false
	line := make([]string, 0, len(args)+2)
	for _, a := range args {
		there = there || strings.Contains(a, hole)
		line = append(line, strings.ReplaceAll(a, hole, number))
	}
	if !there {
		line = append(line, "--"+m.name, number)
	}
	return line
}

// record runs the program at each size, for a few steps, and adds the recordings to f.at. What it
// prints goes to standard error. done takes the recordings away.
func (f *fitFlags) record(cmd *cobra.Command, args []string) (done func(), err error) {
	m, err := f.measured()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "stalloc-fit-")
	if err != nil {
		return nil, fmt.Errorf("a folder for the recordings: %w; set TMPDIR to one that can be written", err)
	}
	done = func() { _ = os.RemoveAll(folder) } // it lies where such files are cleared away
	for _, size := range m.sizes {
		path := filepath.Join(folder, fmt.Sprintf("%s-%d.csv.gz", m.name, size))
		line := append([]string{"-m", "stalloc.record", "--steps", strconv.Itoa(f.steps), "-o",
			path}, m.commandLine(args, size)...)
		child := exec.CommandContext(cmd.Context(), f.python, line...)
		child.Stdin, child.Stdout, child.Stderr, child.Env = os.Stdin, cmd.ErrOrStderr(),
			cmd.ErrOrStderr(), withPackage(os.Environ())
		fmt.Fprintf(cmd.ErrOrStderr(), "stalloc: %s %d: %s\n", m.name, size,
			strings.Join(child.Args, " "))
		if err := child.Run(); err != nil {
			done()
			if cmd.Context().Err() != nil {
				return nil, cmd.Context().Err()
			}
			fmt.Fprintf(cmd.ErrOrStderr(),
				"stalloc: %s %d: %v; what it printed is above; sizes have to fit here, and --python names the interpreter that trains\n", m.name, size, err)
			return nil, errFailed
		}
		f.at = append(f.at, fmt.Sprintf("%d=%s", size, path))
	}
	return done, nil
}
