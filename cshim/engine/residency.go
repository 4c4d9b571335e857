package main

/*
#include "stalloc.h"

typedef const char stalloc_text;
*/
import "C"

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"stalloc/plan/residency"
)

// residencyOf plans a step, both as JSON.
func residencyOf(problem string) ([]byte, error) {
	p := residency.Problem{Handle: 1}
	d := json.NewDecoder(bytes.NewBufferString(problem))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("the problem is no residency.Problem in JSON: %w", err)
	}
	plan, err := residency.Solve(&p)
	if err != nil {
		return nil, err
	}
	return json.Marshal(plan)
}

//export stalloc_residency
func stalloc_residency(problem *C.stalloc_text, plan *C.char, length C.size_t) C.int {
	n := 0
	if r := answerAs(errArgument, plan, length, func() error {
		if problem == nil {
			return errors.New("no problem: give one in JSON")
		}
		text, err := residencyOf(C.GoString((*C.char)(problem)))
		if err == nil {
			n = len(text)
			write(string(text), plan, length)
		}
		return err
	}); r != ok {
		return r
	}
	return C.int(n)
}
