package floors

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// mostColumns is how long a line of Go, C, C++ and Python may be.
const mostColumns = 100

// tabs says how many columns a tab is, by the end of a file's name: as editors show Go, and as the
// C here is indented.
var tabs = map[string]int{".go": 4, ".c": 8, ".h": 8, ".cc": 8, ".py": 8}

// unwrapped are folders with lines that are not wrapped yet, and how many at most. Take a folder
// out once its lines are wrapped; never add one.
var unwrapped = map[string]int{"actors": 15, "engine": 25, "replay": 10, "tests": 12}

// columnsOf returns how many columns a line has.
func columnsOf(line string, tab int) (n int) {
	for _, r := range line {
		if n++; r == '\t' {
			n += tab - 1 - (n-1)%tab
		}
	}
	return n
}

// excused returns the numbers of lines of a Go file that may be longer, for now: lines that would
// be short enough without the contents of their string literals, figures in comments, and what an
// example is to print.
func excused(text []byte) map[int]bool {
	lines := strings.Split(string(text), "\n")
	literals := map[int]int{} // columns that string literals take, by line
	figures := map[int]bool{}
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	output := false // inside of an example's
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		at, kind, literal := s.Scan()
		first := file.Position(at).Line
		output = kind == token.COMMENT && (output || strings.HasPrefix(literal, "// Output:"))
		switch kind {
		case token.EOF:
			excused := figures
			for n, taken := range literals {
				if columnsOf(lines[n-1], tabs[".go"])-taken <= mostColumns {
					excused[n] = true
				}
			}
			return excused
		case token.STRING:
			for i, part := range strings.Split(literal, "\n") {
				literals[first+i] += utf8.RuneCountInString(part)
			}
		case token.COMMENT:
			for i, part := range strings.Split(literal, "\n") {
				figures[first+i] = figures[first+i] || output || isFigure(part)
			}
		}
	}
}

// isFigure reports whether a comment's line is drawn: it is indented code, or has arrows and boxes.
func isFigure(line string) bool {
	return strings.HasPrefix(line, "//\t") || strings.HasPrefix(line, "//  ") ||
		strings.ContainsAny(line, "─│►▼▲└┘┌┐")
}

// longLines returns a complaint for each line of a file that is too long.
func longLines(name string, text []byte) (long []string) {
	tab, known := tabs[filepath.Ext(name)]
	if !known || bytes.HasPrefix(text, []byte("// Code generated")) {
		return nil
	}
	may := map[int]bool{}
	if filepath.Ext(name) == ".go" {
		may = excused(text)
	}
	for i, line := range strings.Split(string(text), "\n") {
		if n := columnsOf(line, tab); n > mostColumns && !may[i+1] {
			long = append(long, fmt.Sprintf("%s:%d: %d columns, of at most %d; a tab is %d",
				name, i+1, n, mostColumns, tab))
		}
	}
	return long
}

// TestColumns: no line of Go, C, C++ or Python is longer than a hundred columns.
func TestColumns(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	built := map[string]bool{"build": true, "bin": true, "dist": true, "python/stalloc/lib": true}
	checked, waiting := 0, map[string][]string{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if path != root && strings.HasPrefix(d.Name(), ".") || built[name] {
				return filepath.SkipDir
			}
			return nil
		}
		if _, known := tabs[filepath.Ext(name)]; !known {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		checked++
		top, _, _ := strings.Cut(name, "/")
		waiting[top] = append(waiting[top], longLines(name, text)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for top, long := range waiting {
		if len(long) > unwrapped[top] {
			t.Errorf("%d lines below %s are too long, at most %d may be:\n%s", len(long), top,
				unwrapped[top], strings.Join(long, "\n"))
		}
	}
	if checked < 500 {
		t.Errorf("%d files were found: the walk misses some", checked)
	}
}

// TestLongLines breaks the rule in each language, and in each way that Go may.
func TestLongLines(t *testing.T) {
	word, wide := strings.Repeat("a", 90), strings.Repeat("a", 97)
	for _, c := range []struct {
		name, text string
		want       string // the complaint; empty for none
	}{
		{"x.go", "\t" + word, ""},
		{"x.go", "\t\t\t" + word, "x.go:1: 102 columns"},
		{"x.go", "package a\n\nvar " + wide, "x.go:3: 101 columns"},
		{"x.go", "a \t" + wide, "x.go:1: 101 columns"},
		{"x.go", "// " + strings.Repeat("é", 97), ""},
		{"x.go", "// " + wide + "a", "x.go:1: 101 columns"},
		{"x.go", "//\t" + wide, ""},
		{"x.go", "// ──► " + wide, ""},
		{"x.go", "f()\n// Output:\n// " + wide + wide, ""},
		{"x.go", "// Output:\nf()\n// " + wide + wide, "x.go:3: 197 columns"},
		{"x.go", `f("` + wide + `", x)`, ""},
		{"x.go", "f(`" + wide + "\n" + wide + wide + "`)", ""},
		{"x.go", `f("a", ` + wide + `)`, "x.go:1: 105 columns"},
		{"x.c", "\t" + wide, "x.c:1: 105 columns"},
		{"x.h", "/* " + wide + " */", "x.h:1: 103 columns"},
		{"x.cc", `f("` + wide + `");`, "x.cc:1: 103 columns"},
		{"x.py", "    " + wide, "x.py:1: 101 columns"},
		{"x.md", wide + wide, ""},
	} {
		got := strings.Join(longLines(c.name, []byte(c.text)), "\n")
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %q: %q, expected %q", c.name, c.text, got, c.want)
		}
	}
}
