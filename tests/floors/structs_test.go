package floors

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// mostFields is how many fields a struct of the core has at most: one that knows more is several.
const mostFields = 16

// plainStructs have more: counters and options.
var plainStructs = map[string]string{
	"engine.Stats":   "counters",
	"actors.Options": "options",
	"main.settings":  "options",
}

// TestStructsAreSmall counts the fields of the structs of the core, an embedded one as one.
func TestStructsAreSmall(t *testing.T) {
	seen := map[string]bool{}
	for _, folder := range []string{"engine", "actors", "stream", "plan", "cshim", "cuda"} {
		err := filepath.WalkDir(filepath.Join("../..", folder),
			func(path string, d fs.DirEntry, err error) error {
				if err != nil || !strings.HasSuffix(path, ".go") ||
					strings.HasSuffix(path, "_test.go") {
					return err
				}
				file, err := parser.ParseFile(token.NewFileSet(), path, nil,
					parser.SkipObjectResolution)
				if err != nil {
					return err
				}
				ast.Inspect(file, func(n ast.Node) bool {
					s, ok := n.(*ast.TypeSpec)
					if !ok {
						return true
					}
					name := file.Name.Name + "." + s.Name.Name
					if x, ok := s.Type.(*ast.StructType); ok {
						seen[name] = true
						if n := fieldsOf(x); n > mostFields && plainStructs[name] == "" {
							t.Errorf("%s in %s has %d fields, more than %d", name, path, n,
								mostFields)
						}
					}
					return true
				})
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range plainStructs {
		if !seen[name] {
			t.Errorf("%s is excused, and there is none", name)
		}
	}
}

func fieldsOf(s *ast.StructType) (n int) {
	for _, f := range s.Fields.List {
		n += max(len(f.Names), 1)
	}
	return n
}
