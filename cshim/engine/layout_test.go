package main

import "testing"

func TestGoAndCAgree(t *testing.T) {
	if err := checkLayout(); err != nil {
		t.Error(err)
	}
}
