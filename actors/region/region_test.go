package region

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// TestNamesAreBounded: a program cannot have ever more names, and those it has go on.
func TestNamesAreBounded(t *testing.T) {
	before := maps.Clone(named.tags)
	defer func() { named.tags = before }()
	var err error
	for n := 0; err == nil && n <= mostNames; n++ {
		_, err = Number(fmt.Sprint("test: name ", n))
	}
	if !errors.Is(err, ErrUnknown) || len(All()) != mostNames {
		t.Errorf("%d names: %v", len(All()), err)
	}
	if _, err := Number("test: name 0"); err != nil {
		t.Error(err)
	}
}

// TestNoNames: where there is no region yet, the error does not list none.
func TestNoNames(t *testing.T) {
	before := named.tags
	defer func() { named.tags = before }()
	named.tags = nil
	if _, err := Numbers([]string{"weights"}); err == nil ||
		!strings.HasSuffix(err.Error(), `"weights"; known are: none, begin one first`) {
		t.Error(err)
	}
}
