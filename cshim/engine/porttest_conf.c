//go:build porttest

#include "../conf.c"
