package floors

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Check reads every package under root as it is built with the given tags,
// with and without cgo, and returns one line for each broken rule, sorted. The
// error is for a tree that cannot be read at all.
func Check(root string, rules Rules, tagSets [][]string) ([]string, error) {
	dirs, err := packageDirs(root)
	if err != nil {
		return nil, err
	}
	c := checker{root: root, rules: rules, used: map[string]bool{}, found: map[string]bool{}}
	for _, tags := range tagSets {
		for _, cgo := range []bool{true, false} {
			ctx := build.Default
			ctx.BuildTags, ctx.CgoEnabled = tags, cgo
			for _, dir := range dirs {
				if err := c.pkg(&ctx, dir); err != nil {
					return nil, err
				}
			}
		}
	}
	for file, a := range rules.Allowed {
		for _, imp := range a.Imports {
			if !c.used[file+" "+imp] {
				c.report("%s is allowed %q but does not import it: take the allowance out", file,
					imp)
			}
		}
	}
	lines := make([]string, 0, len(c.found))
	for line := range c.found {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines, nil
}

// packageDirs lists the folders under root, relative and slash-separated, that
// the go command would look into.
func packageDirs(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		name := d.Name()
		if p != root && (name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") ||
			strings.HasPrefix(name, "_")) {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, p)
		dirs = append(dirs, filepath.ToSlash(rel))
		return err
	})
	return dirs, err
}

type checker struct {
	root  string
	rules Rules
	used  map[string]bool // allowances met: "file import"
	found map[string]bool // violations, once each over all tag sets
}

func (c *checker) report(format string, args ...any) {
	c.found[fmt.Sprintf(format, args...)] = true
}

func (c *checker) pkg(ctx *build.Context, dir string) error {
	p, err := ctx.ImportDir(filepath.Join(c.root, filepath.FromSlash(dir)), 0)
	var none *build.NoGoError
	if errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading package %s: %w", dir, err)
	}
	level, ok := c.level(dir)
	if !ok {
		c.report("%s stands on no floor: give it a row in the table", dir)
		return nil
	}
	for imp, at := range p.ImportPos {
		for _, pos := range at {
			c.edge(dir, level, imp, pos)
		}
	}
	for _, imports := range []map[string][]token.Position{p.TestImportPos, p.XTestImportPos} {
		for imp, at := range imports {
			c.testEdge(dir, level, imp, at[0])
		}
	}
	if level > c.rules.Pure {
		return nil
	}
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		if err := c.syntax(path.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// edge judges one import of code that ships.
func (c *checker) edge(dir string, level int, imp string, pos token.Position) {
	file := c.file(pos)
	c.banned(file, imp)
	target, inside := c.inside(imp)
	switch {
	case inside && target != dir && slices.Contains(c.rules.Strangers, dir) &&
		slices.Contains(c.rules.Strangers, target):
		c.report("%s: %s imports %s, which is to be a stranger", file, dir, imp)
	case inside:
		below, ok := c.level(target)
		same := below == level && (level > c.rules.Pure || top(target) == top(dir))
		if ok && below >= level && !same {
			c.report("%s: %s (floor %d) imports %s (floor %d)", file, dir, level, imp, below)
		}
	case level > c.rules.Pure:
	case strings.Contains(imp, "."):
		c.report("%s: pure package %s imports the foreign module %s", file, dir, imp)
	case slices.ContainsFunc(c.rules.Impure, func(bad string) bool { return under(imp, bad) }):
		if slices.Contains(c.rules.Allowed[file].Imports, imp) {
			c.used[file+" "+imp] = true
			return
		}
		c.report("%s: pure package %s imports %q", file, dir, imp)
	}
}

// testEdge judges one import of a test: its own floor is allowed and so is
// help for tests, anything else above is not.
func (c *checker) testEdge(dir string, level int, imp string, pos token.Position) {
	file := c.file(pos)
	c.banned(file, imp)
	if target, inside := c.inside(imp); inside && !under(target, c.rules.Help) {
		if above, ok := c.level(target); ok && above > level {
			c.report("%s: test of %s (floor %d) imports %s (floor %d)", file, dir, level, imp,
				above)
		}
	}
}

func (c *checker) banned(file, imp string) {
	for bad, why := range c.rules.Banned {
		if under(imp, bad) {
			c.report("%s imports %s, which %s", file, imp, why)
		}
	}
}

// syntax reports what no import gives away: go statements, and numbers from the
// global source of randomness, which no seed can repeat.
func (c *checker) syntax(file string) error {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, filepath.Join(c.root, filepath.FromSlash(file)), nil,
		parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	random := slices.ContainsFunc(f.Imports,
		func(i *ast.ImportSpec) bool {
			return i.Path.Value == `"math/rand/v2"` ||
				i.Path.Value == `"math/rand"`
		})
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			c.report("%s:%d: pure package starts a goroutine", file, fset.Position(n.Go).Line)
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && random && x.Name == "rand" &&
				!slices.Contains(seeded, n.Sel.Name) {
				c.report("%s:%d: pure package uses rand.%s, which has no seed", file,
					fset.Position(n.Pos()).Line, n.Sel.Name)
			}
		}
		return true
	})
	return nil
}

// seeded are the names of math/rand/v2 that do not touch its global source.
var seeded = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "PCG", "ChaCha8", "Zipf",
	"Source"}

func (c *checker) level(dir string) (int, bool) {
	best, level := -1, 0
	for _, f := range c.rules.Floors {
		if under(dir, f.Folder) && len(f.Folder) > best {
			best, level = len(f.Folder), f.Level
		}
	}
	return level, best >= 0
}

// inside returns an import's folder within the module, "." for its own package.
func (c *checker) inside(imp string) (string, bool) {
	if imp == c.rules.Module {
		return ".", true
	}
	return strings.CutPrefix(imp, c.rules.Module+"/")
}

func (c *checker) file(pos token.Position) string {
	rel, err := filepath.Rel(c.root, pos.Filename)
	if err != nil {
		return pos.Filename
	}
	return filepath.ToSlash(rel)
}

// under reports whether p is folder or lies below it.
func under(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

func top(p string) string {
	first, _, _ := strings.Cut(p, "/")
	return first
}
