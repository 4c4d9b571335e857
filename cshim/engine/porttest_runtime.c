//go:build porttest

#include "../runtime.c"
