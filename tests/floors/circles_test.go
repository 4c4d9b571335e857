package floors

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// circle returns files that depend on each other in a circle, each with why it depends on the next;
// nil: there are none. uses says which files a file uses, and what it uses of each.
func circle(uses map[string]map[string]string) (path []string) {
	const open, done = 1, 2
	state := map[string]int{}
	var way []string
	var visit func(string) bool
	visit = func(file string) bool {
		state[file], way = open, append(way, file)
		for _, next := range slices.Sorted(maps.Keys(uses[file])) {
			if state[next] == open {
				way = append(way[slices.Index(way, next):], next)
				return true
			}
			if state[next] == 0 && visit(next) {
				return true
			}
		}
		state[file], way = done, way[:len(way)-1]
		return false
	}
	for _, file := range slices.Sorted(maps.Keys(uses)) {
		if state[file] != 0 || !visit(file) {
			continue
		}
		for i := range way[:len(way)-1] {
			path = append(path, fmt.Sprintf("%s uses %s of %s", way[i], uses[way[i]][way[i+1]],
				way[i+1]))
		}
		return path
	}
	return nil
}

// symbolsOf compiles a C file and returns the symbols that it defines for others, and that it uses
// of others, in functions of headers, too, if it calls them.
func symbolsOf(t *testing.T, root, file string) (defines, needs []string) {
	t.Helper()
	object := filepath.Join(t.TempDir(), "x.o")
	compiler := strings.Fields(cmp.Or(os.Getenv("CC"), "gcc"))
	arguments := append(compiler[1:], "-std=gnu11", "-D_GNU_SOURCE", "-pthread", "-fPIC", "-O0",
		"-w", "-c", "-o", object, file)
	compile := exec.Command(compiler[0], arguments...)
	compile.Dir = root
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", compile.Args, err, out)
	}
	out, err := exec.Command("nm", "-g", object).Output()
	if err != nil {
		t.Fatalf("nm %s: %v", file, err)
	}
	for _, line := range strings.Split(string(out), "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 2: // no address: undefined
			needs = append(needs, words[1])
		case len(words) == 3:
			defines = append(defines, words[2])
		}
	}
	return defines, needs
}

// TestNoCallsInACircle: no files of libstalloc use each other's functions and variables in a
// circle.
func TestNoCallsInACircle(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "cshim/lib/*.c"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files of libstalloc: %v", len(files), err)
	}
	definedIn, needs := map[string]string{}, map[string][]string{}
	for _, file := range files {
		name := filepath.Base(file)
		var defines []string
		defines, needs[name] = symbolsOf(t, root, file)
		for _, symbol := range defines {
			definedIn[symbol] = name
		}
	}
	uses, found := map[string]map[string]string{}, 0
	for name, symbols := range needs {
		uses[name] = map[string]string{}
		for _, symbol := range symbols {
			if of := definedIn[symbol]; of != "" && of != name {
				uses[name][of] = symbol
				found++
			}
		}
	}
	if path := circle(uses); path != nil {
		t.Errorf("a circle: %s", strings.Join(path, ", "))
	}
	if found < 50 {
		t.Errorf("only %d uses were found: nm's output is not understood", found)
	}
}

var include = regexp.MustCompile(`(?m)^\s*#\s*include "([^"]+)"`)

// TestNoIncludesInACircle: no C and C++ files of cshim include each other in a circle.
func TestNoIncludesInACircle(t *testing.T) {
	uses, found := map[string]map[string]string{}, 0
	for _, pattern := range []string{"*", "*/*", "*/*/*"} {
		files, err := filepath.Glob(filepath.Join("../../cshim", pattern+".*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !slices.Contains([]string{".c", ".h", ".cc"}, filepath.Ext(file)) {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			uses[file] = map[string]string{}
			for _, match := range include.FindAllStringSubmatch(string(text), -1) {
				at := filepath.Join(filepath.Dir(file), match[1])
				if _, err := os.Stat(at); err != nil { // of a folder that -I names
					at = filepath.Join("../../cshim", match[1])
				}
				uses[file][at] = "the text"
				found++
			}
		}
	}
	if path := circle(uses); path != nil {
		t.Errorf("a circle: %s", strings.Join(path, ", "))
	}
	if found < 50 {
		t.Errorf("only %d includes were found", found)
	}
}

// TestCircle: circles of one, two and three files are found, and what is none is not.
func TestCircle(t *testing.T) {
	graph := func(edges ...string) map[string]map[string]string {
		uses := map[string]map[string]string{}
		for _, edge := range edges {
			from, to := edge[:1], edge[1:]
			if uses[from] == nil {
				uses[from] = map[string]string{}
			}
			uses[from][to] = "f"
		}
		return uses
	}
	for _, c := range []struct {
		edges []string
		want  string
	}{
		{[]string{"ab", "ac", "bd", "cd", "eb"}, ""},
		{[]string{"aa"}, "a uses f of a"},
		{[]string{"ab", "bc", "cb"}, "b uses f of c, c uses f of b"},
		{[]string{"ab", "xa", "bc", "cd", "da"}, "a uses f of b, b uses f of c, " +
			"c uses f of d, d uses f of a"},
	} {
		if got := strings.Join(circle(graph(c.edges...)), ", "); got != c.want {
			t.Errorf("%v: %q, expected %q", c.edges, got, c.want)
		}
	}
}
