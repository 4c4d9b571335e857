package trace

import "fmt"

// The opcodes a snapshot is made of under pickle protocols 2 to 5. They build
// plain data and can do nothing else.
const (
	opMark            = '('
	opStop            = '.'
	opBinInt          = 'J'
	opBinInt1         = 'K'
	opBinInt2         = 'M'
	opNone            = 'N'
	opBinUnicode      = 'X'
	opBinBytes        = 'B'
	opShortBinBytes   = 'C'
	opBinFloat        = 'G'
	opAppend          = 'a'
	opAppends         = 'e'
	opSetItem         = 's'
	opSetItems        = 'u'
	opTuple           = 't'
	opEmptyTuple      = ')'
	opEmptyList       = ']'
	opEmptyDict       = '}'
	opBinPut          = 'q'
	opLongBinPut      = 'r'
	opBinGet          = 'h'
	opLongBinGet      = 'j'
	opProto           = 0x80
	opTuple1          = 0x85
	opTuple2          = 0x86
	opTuple3          = 0x87
	opNewTrue         = 0x88
	opNewFalse        = 0x89
	opLong1           = 0x8a
	opLong4           = 0x8b
	opShortBinUnicode = 0x8c
	opBinUnicode8     = 0x8d
	opBinBytes8       = 0x8e
	opMemoize         = 0x94
	opFrame           = 0x95
)

// codeOpcodes are those that name, make or change objects of the program that
// unpickles: what makes a pickle dangerous. Nothing in this package could run
// them; they are named so that the error says what the file tried.
var codeOpcodes = map[byte]string{
	'c': "GLOBAL", 0x93: "STACK_GLOBAL", 'R': "REDUCE", 'b': "BUILD", 'i': "INST", 'o': "OBJ",
	0x81: "NEWOBJ", 0x92: "NEWOBJ_EX", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4", 'P': "PERSID",
	'Q': "BINPERSID",
}

// otherOpcodes are plain data that no snapshot of protocols 2 to 5 holds.
var otherOpcodes = map[byte]string{
	'0': "POP", '1': "POP_MARK", '2': "DUP", 'F': "FLOAT", 'I': "INT", 'L': "LONG", 'S': "STRING",
	'T': "BINSTRING", 'U': "SHORT_BINSTRING", 'V': "UNICODE", 'd': "DICT", 'l': "LIST", 'g': "GET",
	'p':  "PUT",
	0x8f: "EMPTY_SET", 0x90: "ADDITEMS", 0x91: "FROZENSET", 0x96: "BYTEARRAY8", 0x97: "NEXT_BUFFER",
	0x98: "READONLY_BUFFER",
}

// refuse explains an opcode outside the closed list.
func refuse(op byte) (want, got, remedy string) {
	if name, ok := codeOpcodes[op]; ok {
		return "plain data", "opcode " + name + ", which names or runs code",
			"do not unpickle this file; a snapshot needs no code: write it with torch.cuda.memory._dump_snapshot"
	}
	if name, ok := otherOpcodes[op]; ok {
		return "an opcode that snapshots use", "opcode " + name, remedySnapshot
	}
	return "an opcode that snapshots use", fmt.Sprintf("byte %#02x", op), remedySnapshot
}

const remedySnapshot = "write the snapshot with torch.cuda.memory._dump_snapshot"
