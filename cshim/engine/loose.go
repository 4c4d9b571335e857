package main

/*
#include "shared.h"
*/
import "C"

// looseHost returns a host over a device that no program uses. Only tests call it.
func looseHost() *host { return newHost(&array[C.struct_stalloc_device](1)[0]) }
