package floors

import (
	"go/build"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFloors holds the module to its table.
func TestFloors(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := Check(root, Stalloc, TagSets)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		t.Error(line)
	}
}

// TestAllowancesHaveReasons: an exception without a reason is a hole.
func TestAllowancesHaveReasons(t *testing.T) {
	for file, a := range Stalloc.Allowed {
		if a.Why == "" {
			t.Errorf("%s is excused without a reason", file)
		}
	}
}

// synthetic is the table of the small modules below.
var synthetic = Rules{
	Module: "m",
	Floors: []Floor{{"base", 0}, {"left", 1}, {"right", 1}, {"act", 2}, {"act2", 2}, {"dev", 2},
		{"dev/deep", 0},
		{"help", 3}, {".", 3}},
	Pure:      1,
	Strangers: []string{"act", "dev"},
	Help:      "help",
	Impure:    []string{"C", "unsafe", "time", "os", "net"},
	Banned:    map[string]string{"example.com/heavy": "is heavy"},
	Allowed: map[string]Allowance{
		"left/file.go": {Imports: []string{"os"}, Why: "writes the file"},
	},
}

// TestCheck breaks each rule once, in a module that is otherwise in order.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string // the one violation expected; empty for none
	}{
		{name: "in order"},
		{"up", map[string]string{"base/x.go": `import _ "m/left"`},
			`base/x.go: base (floor 0) imports m/left`},
		{"across", map[string]string{"left/x.go": `import _ "m/right"`},
			`left/x.go: left (floor 1) imports m/right`},
		{"impure", map[string]string{"left/x.go": `import _ "time"`},
			`left/x.go: pure package left imports "time"`},
		{"impure below", map[string]string{"left/x.go": `import _ "net/http"`},
			`left/x.go: pure package left imports "net/http"`},
		{"cgo", map[string]string{"base/x.go": `import "C"`},
			`base/x.go: pure package base imports "C"`},
		{"second file", map[string]string{"left/x.go": `import _ "os"`},
			`left/x.go: pure package left imports "os"`},
		{"foreign", map[string]string{"base/x.go": `import _ "example.com/tidy"`},
			`base/x.go: pure package base imports the foreign module`},
		{"banned", map[string]string{"act/x.go": `import _ "example.com/heavy/v2"`},
			`act/x.go imports example.com/heavy/v2, which is heavy`},
		{"banned in a test", map[string]string{"act/x_test.go": `import _ "example.com/heavy"`},
			`act/x_test.go imports`},
		{"goroutine", map[string]string{"base/x.go": "func f() {\n\tgo f()\n}"},
			`base/x.go:4: pure package starts a goroutine`},
		{"unseeded", map[string]string{"base/x.go": "import \"math/rand/v2\"\n\nvar x = rand.IntN(3)"}, `base/x.go:5: pure package uses rand.IntN`},
		{"seeded", map[string]string{"base/x.go": "import \"math/rand/v2\"\n\nvar x = rand.New(rand.NewPCG(1, 2)).IntN(3)"}, ""},
		{"unknown folder", map[string]string{"misc/x.go": ""}, `misc stands on no floor`},
		{"stale allowance", map[string]string{"left/file.go": ""},
			`left/file.go is allowed "os" but does not import it`},
		{"only under a tag", map[string]string{"base/x.go": "//go:build special\n" +
			`import _ "time"`}, `base/x.go: pure package base imports "time"`},
		{"only without cgo", map[string]string{"base/x.go": "//go:build !cgo\n" +
			`import _ "time"`}, `base/x.go: pure package base imports "time"`},
		{"test above", map[string]string{"left/x_test.go": `import _ "m/act"`},
			`left/x_test.go: test of left (floor 1) imports m/act`},
		{"test across", map[string]string{"left/x_test.go": `import _ "m/right"`}, ""},
		{"test with help", map[string]string{"left/x_test.go": `import _ "m/help/fake"`}, ""},
		{"help without a test", map[string]string{"left/x.go": `import _ "m/help/fake"`},
			`left/x.go: left (floor 1) imports m/help/fake (floor 3)`},
		{"impure test", map[string]string{"left/x_test.go": `import _ "time"`}, ""},
		{"same impure floor", map[string]string{"act/x.go": `import _ "m/act2"`, "act2/x.go": ""},
			""},
		{"strangers", map[string]string{"act/x.go": `import _ "m/dev"`},
			`act/x.go: act imports m/dev, which is to be a stranger`},
		{"longest folder decides", map[string]string{"dev/deep/x.go": `import _ "m/left"`},
			`dev/deep/x.go: dev/deep (floor 0) imports`},
		{"the module's own package", map[string]string{"x.go": `import _ "m/act"`,
			"help/x.go": `import _ "m"`}, ""},
		{"up to the module's own package",
			map[string]string{"x.go": "",
				"act/x.go": `import _ "m"`}, `act/x.go: act (floor 2) imports m (floor 3)`},
		{"testdata", map[string]string{"base/testdata/x.go": `import _ "m/left"`}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := checkModule(t, c.files)
			if c.want == "" {
				if len(lines) > 0 {
					t.Fatalf("unexpected violations: %q", lines)
				}
				return
			}
			if len(lines) != 1 || !strings.HasPrefix(lines[0], c.want) {
				t.Fatalf("got %q, want one line that begins %q", lines, c.want)
			}
		})
	}
}

// checkModule writes the orderly module with files on top and checks it.
func checkModule(t *testing.T, files map[string]string) []string {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{
		"base/base.go":  "",
		"left/left.go":  `import _ "m/base"`,
		"left/file.go":  `import _ "os"`,
		"right/deep.go": `import _ "m/base"`,
		"act/act.go":    "import (\n_ \"m/left\"\n_ \"m/right\"\n_ \"time\"\n)",
		"dev/dev.go":    `import _ "example.com/tidy"`,
	}
	for file, body := range files {
		all[file] = body
	}
	for file, body := range all {
		p := filepath.Join(root, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		tag, rest := "", body
		if strings.HasPrefix(body, "//go:build") {
			line, after, _ := strings.Cut(body, "\n")
			tag, rest = line+"\n\n", after
		}
		name := filepath.Base(filepath.Dir(p))
		if filepath.Dir(p) == root {
			name = synthetic.Module
		}
		text := tag + "package " + name + "\n\n" + rest + "\n"
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := Check(root, synthetic, [][]string{{}, {"special"}})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestTagSets: a constraint that no tag set satisfies would hide its file.
func TestTagSets(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := packageDirs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !slices.ContainsFunc(TagSets,
				func(tags []string) bool { return built(t, file, tags) }) {
				t.Errorf("%s is compiled under none of the tag sets %q", file, TagSets)
			}
		}
	}
}

func built(t *testing.T, file string, tags []string) bool {
	t.Helper()
	for _, cgo := range []bool{true, false} {
		ctx := build.Default
		ctx.BuildTags, ctx.CgoEnabled = tags, cgo
		ok, err := ctx.MatchFile(filepath.Split(file))
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return true
		}
	}
	return false
}
