package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stalloc/replay"
)

// addFormat gives a command --format, and --json for short.
func addFormat(f *pflag.FlagSet, to *format) {
	f.Var(to, "format", "table, md, csv or json: 'stalloc help keys' explains the keys of csv and json")
	f.VarPF(jsonFlag{to}, "json", "",
		"the same as --format json: one object a line").NoOptDefVal = "true"
}

// flagError says what a flag takes, where the flag itself says only what of Go's has failed.
func flagError(_ *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	what := map[string]string{
		"int": "a whole number", "int64": "a whole number", "uint64": "a whole number, 0 or more",
		"float64": "a number", "duration": "a time, as in 500ms or 2s", "bool": "true or false",
	}[bad.GetFlag().Value.Type()]
	if what == "" {
		return err
	}
	return fmt.Errorf("--%s %q: give %s", bad.GetFlag().Name, bad.GetValue(), what)
}

// given is the first of the flags that is on the command line, "" for none.
func given(cmd *cobra.Command, names ...string) string {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// lookup returns the allocators that --allocator names.
func lookup(names []string) (allocators []replay.Allocator, err error) {
	if len(names) == 0 {
		return nil, fmt.Errorf("--allocator names none: choose from %s",
			strings.Join(replay.Names(), ", "))
	}
	for i, name := range names {
		a, err := replay.Lookup(name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("--allocator names %s twice: name each once", name)
		}
		allocators = append(allocators, a)
	}
	return allocators, nil
}

// complete offers values for flags where a shell completes a command line.
func complete(cmd *cobra.Command, values map[string][]string) {
	for flag, of := range values {
		if err := cmd.RegisterFlagCompletionFunc(flag,
			cobra.FixedCompletions(of, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // a flag that was not added
		}
	}
}

// traceFiles offers the files that traces are kept in.
func traceFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"gz", "csv", "pickle"}, cobra.ShellCompDirectiveFilterFileExt
}

func atLeastOneTrace(cmd *cobra.Command, paths []string) error {
	if len(paths) == 0 {
		return fmt.Errorf("no trace given: name at least one file to %s", cmd.Name())
	}
	return nil
}
