//go:build porttest

#include "../api.c"
