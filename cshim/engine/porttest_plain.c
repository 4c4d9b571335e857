//go:build porttest

#include "../plain.c"
