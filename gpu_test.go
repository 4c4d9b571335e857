//go:build cgo

package stalloc_test

import (
	"testing"

	"stalloc"
	"stalloc/tests/fakecuda/fake"
)

// TestGPU opens devices of a driver library that is one, and of one that is not.
func TestGPU(t *testing.T) {
	_, err := stalloc.Open(stalloc.Options{Driver: "/nowhere/libcuda.so.1"})
	says(t, err, "stalloc: cannot open the CUDA driver library /nowhere/libcuda.so.1",
		"install the NVIDIA driver")

	library, err := fake.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, err = stalloc.Open(stalloc.Options{Driver: library, Ordinal: 5})
	says(t, err, "stalloc: there is no device 5", "CUDA_VISIBLE_DEVICES")

	asked := ""
	a, err := stalloc.Open(stalloc.Options{Driver: library,
		Holders: func(uuid string) ([]stalloc.Holder, error) {
			asked = uuid
			return nil, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	x := malloc(t, a, 0, 5*stalloc.MiB)
	must(t, a.Free(x), a.Step(), a.Check())
	is(t, a.Free(x), stalloc.ErrUnknown)
	if a.Explain(); asked != "66616b65-0000-0000-0000-000000000000" ||
		a.Name() != "fake CUDA device 0" {
		t.Errorf("%s was asked about as %q", a.Name(), asked)
	}
	malloc(t, a, 0, stalloc.MiB)
	must(t, a.Close()) // tells what was not given back
}
