package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/term"
)

// format is how results are printed: as a table for people, or for a program to read.
type format string

const (
	asTable format = "table"
	asMD    format = "md"
	asCSV   format = "csv"
	asJSON  format = "json"
)

var formats = []string{string(asTable), string(asMD), string(asCSV), string(asJSON)}

func (f *format) Set(text string) error {
	if !slices.Contains(formats, text) {
		return fmt.Errorf("unknown format %q: choose from %s", text, strings.Join(formats, ", "))
	}
	*f = format(text)
	return nil
}

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "format" }

// jsonFlag is --json, which says the same as --format json.
type jsonFlag struct{ format *format }

func (j jsonFlag) Set(text string) error {
	switch text {
	case "true":
		*j.format = asJSON
	case "false":
		*j.format = asTable
	default:
		return fmt.Errorf("%q is neither true nor false", text)
	}
	return nil
}

func (j jsonFlag) String() string   { return "false" }
func (j jsonFlag) Type() string     { return "bool" }
func (j jsonFlag) IsBoolFlag() bool { return true }

// forPeople reports whether w is a terminal, where colour and progress are of use. What
// is piped or redirected gets neither, and NO_COLOR is respected.
func forPeople(w io.Writer) bool {
	file, ok := behind(w).(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// widthOf is how many columns a terminal has; 0: it is none.
func widthOf(w io.Writer) int {
	if file, ok := behind(w).(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			return width
		}
	}
	return 0
}

func coloured(w io.Writer) bool {
	_, refused := os.LookupEnv("NO_COLOR")
	return !refused && forPeople(w)
}

// versioned is what every object printed for programs begins with. A key is added at any time; one
// that changes its meaning, or goes, raises the version of all.
type versioned struct {
	Version int `json:"version"`
}

// formatVersion is the version now.
var formatVersion = versioned{1}

// records writes results one by one, as JSON objects or CSV rows, a line each.
type records struct {
	json *json.Encoder
	csv  *csv.Writer
	rows int
}

func newRecords(f format, w io.Writer) *records {
	switch f {
	case asJSON:
		return &records{json: json.NewEncoder(w)}
	case asCSV:
		return &records{csv: csv.NewWriter(w)}
	}
	return nil
}

// write prints a result. A CSV has the same keys as JSON, but for lists and objects.
func (r *records) write(result any) error {
	if r.json != nil {
		return r.json.Encode(result)
	}
	keys, values := columns(reflect.ValueOf(result))
	if r.rows++; r.rows == 1 {
		if err := r.csv.Write(keys); err != nil {
			return err
		}
	}
	if err := r.csv.Write(values); err != nil {
		return err
	}
	r.csv.Flush()
	return r.csv.Error()
}

// columns are the JSON keys of a struct, without lists and objects, and their values.
func columns(v reflect.Value) (keys, values []string) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous {
			inner, below := columns(v.Field(i))
			keys, values = append(keys, inner...), append(values, below...)
			continue
		}
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if kind := field.Type.Kind(); key == "" || kind == reflect.Slice || kind == reflect.Map {
			continue
		}
		value := v.Field(i)
		if value.CanInt() { // without the unit that an amount prints
			values = append(values, fmt.Sprint(value.Int()))
		} else {
			values = append(values, fmt.Sprint(value.Interface()))
		}
		keys = append(keys, key)
	}
	return keys, values
}
