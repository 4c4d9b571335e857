//go:build porttest

#include "../pools.c"
