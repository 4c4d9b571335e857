package layout

import (
	"reflect"
	"strings"
	"testing"
)

type inner struct{ A, B uint32 }

type outer struct {
	N    uint64
	List [3]inner
	Flag bool
}

func TestSame(t *testing.T) {
	ours := reflect.TypeFor[outer]()
	if err := Same("outer", ours, reflect.TypeFor[struct {
		n     uint64
		list  [3]struct{ a, b uint32 }
		flags bool
		_     [7]byte
	}]()); err != nil {
		t.Errorf("twins: %v", err)
	}
	for want, other := range map[string]reflect.Type{
		"outer differs between Go and C: 40 and 48 bytes": reflect.TypeFor[struct {
			n    uint64
			list [4]inner
			flag bool
		}](),
		"outer has 3 fields in Go and 4 in C": reflect.TypeFor[struct {
			n     uint64
			list  [3]inner
			flag  bool
			extra bool
		}](),
		"outer.Flag lies at 32 in Go and, as flag, at 36 in C": reflect.TypeFor[struct {
			n    uint64
			list [3]inner
			_    [4]byte
			flag bool
		}](),
		"outer.List differs between Go and C": reflect.TypeFor[struct {
			n    uint64
			list [6]uint32
			flag bool
		}](),
		"outer.List[].A lies at 0 in Go and, as b, at 0 in C": reflect.TypeFor[struct {
			n    uint64
			list [3]struct{ b, a uint32 }
			flag bool
		}](),
	} {
		if err := Same("outer", ours, other); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}
