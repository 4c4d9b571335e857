//go:build porttest

#include "../control.c"
