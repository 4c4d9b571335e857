package problemfile

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan/solve/dsa"
)

func TestForms(t *testing.T) {
	two := dsa.Problem{Buffers: []dsa.Buffer{{Lower: 0, Upper: 4, Size: 2},
		{Lower: -2, Upper: 6, Size: 1}}}
	with := func(change func(*dsa.Problem)) dsa.Problem {
		p := two
		change(&p)
		return p
	}
	gap := with(func(p *dsa.Problem) {
		p.Gaps = []dsa.Gap{{Buffer: 0, Lower: 1, Upper: 2}, {Buffer: 1, Lower: -1, Upper: 2,
			From: 0, To: 1}}
	})
	for text, want := range map[string]dsa.Problem{
		"id,lower,upper,size\na,0,4,2\nb,-2,6,1\n":                         two,
		"buffer_id,start,end,size\r\na,0,3,2\r\nb,-2,5,1\r\n":              two,
		"size,upper,begin\n2,4,0\n1,6,-2\n":                                two,
		"a,0,4,2\nb,-2,6,1":                                                two,
		"\ufeffid,lower,upper,size\na,0,4,2\nb,-2,6,1\n":                   two,
		"0,4,2\n-2,6,1\n":                                                  two,
		"# a comment\n\na, 0, 4, 2\n\nb,-2,6,1\n":                          two,
		"\"a\",0,4,2,\"1-2\"\nb,-2,6,1,-1-2@0:1\n":                         gap,
		"id,lower,upper,size,gaps\na,0,4,2,1-2\nb,-2,6,1,-1-2@0:1\n":       gap,
		"id,lower,end,size,gaps\na,0,3,2,1-1\nb,-2,5,1,-1-1@0:1\n":         gap,
		"id,lower,upper,size,alignment,hint\na,0,4,2,1,-1\nb,-2,6,1,8,7\n": with(func(p *dsa.Problem) { p.Align = []mem.Bytes{1, 8} }),
		"id,lower,upper,size,offset\na,0,4,2,-1\nb,-2,6,1,0\n":             with(func(p *dsa.Problem) { p.Pins = []dsa.Pin{{Buffer: 1}} }),
	} {
		f, err := Read(strings.NewReader(text), "x.csv")
		if err != nil || !reflect.DeepEqual(f.Problem, want) {
			t.Errorf("%q: %v, %+v, expected %+v", text, err, f, want)
		}
		if !Is([]byte(text)) && text[0] != '#' {
			t.Errorf("%q is not taken for a problem", text)
		}
	}
	for _, other := range []string{"", "# workload x", "\x80\x04", "\x1f\x8b", "STALLOCP"} {
		if Is([]byte(other)) {
			t.Errorf("%q is taken for a problem", other)
		}
	}
}

func TestRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "no buffer",
		"id,lower,upper,size\n":       "no buffer",
		"a,b,c\n":                     "unknown field",
		"lower,lower,size\n":          "named twice",
		"lower,size,gaps\n":           "expected lower, upper and size",
		"lower,upper,end,size\n":      "expected lower, upper and size",
		"a,0,4,2\nb,0,4\n":            "line 2: 3 fields, expected 4",
		"0,4,2\n0,4,2,7\n":            "4 fields, expected 3",
		"a,0,4,x\n":                   "size is \"x\"",
		"a,0,9999999999999999999,2\n": "upper is",
		"a,0,4,2305843009213693952\n": "expected a whole number up to 2^60",
		"# x\n\na,0,4,2\n\nb,4,0,2\n": "line 5: buffer b: 2 bytes in [4, 0)",
		"a,4,0,2\n":                   "ends after its start",
		"a,0,4,-2\n":                  "-2 bytes",
		"a,0,4,2,7\n":                 "gap \"7\"",
		"a,0,4,2,1-2@3\n":             "gap \"1-2@3\"",
		"a,0,4,2,1-9\n":               "gap in [1, 9)",
		"a,0,4,2,1-3 2-4\n":           "line 1: buffer a: two gaps overlap",
		"id,lower,upper,size,alignment\na,0,4,2,0\n": "line 2: buffer a: an alignment of 0",
	} {
		if _, err := Read(strings.NewReader(text), "x.csv"); err == nil ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "x.csv") {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("id,lower,upper,size,gaps,alignment,offset\na,0,4,2,1-2@0:1,2,4\n")
	f.Add("a,0,4,2\nb,-2,6,1,-1-2")
	f.Add("lower,upper,size,id\n0,4,2,#1\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Read(strings.NewReader(text), "fuzz")
		if err != nil {
			return
		}
		offsets := make([]mem.Offset, len(file.IDs))
		for _, p := range file.Problem.Pins {
			offsets[p.Buffer] = p.At
		}
		for _, id := range file.IDs {
			if strings.ContainsAny(id, ",\"\n") || strings.TrimSpace(id) != id {
				return
			}
		}
		var out bytes.Buffer
		if err := Write(&out, file, offsets); err != nil {
			t.Fatal(err)
		}
		again, err := Read(&out, "written")
		if err != nil || !reflect.DeepEqual(again.Problem.Buffers, file.Problem.Buffers) ||
			len(again.Problem.Gaps) != len(file.Problem.Gaps) ||
			!reflect.DeepEqual(again.Problem.Align, file.Problem.Align) {
			t.Fatalf("%v: %+v became %+v", err, file.Problem, again)
		}
	})
}
