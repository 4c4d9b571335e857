package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"stalloc/internal/mem"
)

// A page's data is gzip'd and in base64: the length of a JSON object as uint32, little
// endian, the object, and the columns that it lists, one after the other. A column is
// the differences of its numbers, each as a zigzag varint.

// header is the JSON object: all of Data, and where its columns are.
type header struct {
	*Data
	Every   int            `json:"every"`
	Begin   int            `json:"begin"`
	End     int            `json:"end"`
	Columns map[string]int `json:"columns"` // name → count of its numbers
	Order   []string       `json:"order"`
	Heights []int          `json:"heights"` // of the maps, in grains, by allocator
	Maps    []bool         `json:"maps"`
	Drawn   int            `json:"drawn"` // blocks
}

func (d *Data) encode() (string, error) {
	h := header{
		Data: d, Every: d.Curve.Every, Begin: d.Window.Begin, End: d.Window.End,
		Columns: make(map[string]int), Drawn: len(d.Window.From),
	}
	var columns []byte
	add := func(name string, values []int) {
		h.Columns[name] = len(values)
		h.Order = append(h.Order, name)
		last := 0
		for _, v := range values {
			columns = binary.AppendVarint(columns, int64(v-last))
			last = v
		}
	}
	w := &d.Window
	add("curve.micros", d.Curve.Micros)
	add("curve.load", d.Curve.Load)
	for i, a := range d.Allocators {
		add("curve."+a.Name, d.Curve.Reserved[i])
		h.Heights = append(h.Heights, int(w.Maps[i].Height/mem.Grain))
		h.Maps = append(h.Maps, w.Maps[i].Height > 0)
	}
	add("micros", w.Micros)
	add("from", w.From)
	add("life", w.Life)
	add("size", w.Size)
	add("stream", w.Stream)
	add("phase", w.Phase)
	add("stack", w.Stack)
	add("served", w.Served)
	for i, a := range d.Allocators {
		m := &w.Maps[i]
		add("place."+a.Name, m.Place)
		add("held.low."+a.Name, m.HeldLow)
		add("held.size."+a.Name, m.HeldSize)
		add("held.begin."+a.Name, m.HeldBegin)
		add("held.life."+a.Name, m.HeldLife)
	}
	object, err := json.Marshal(h)
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	for _, part := range [][]byte{binary.LittleEndian.AppendUint32(nil, uint32(len(object))),
		object, columns} {
		if _, err := zip.Write(part); err != nil {
			return "", err
		}
	}
	if err := zip.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}
