package llama

import (
	"bytes"
	"encoding/json"
)

// parseSafetensors lists the tensors of a safetensors file: the length of the
// header (u64), the header (JSON), and the data that it describes.
func parseSafetensors(f file) (*archive, error) {
	c := cursor{file: f}
	header := c.string("header")
	if c.err != nil {
		return nil, c.err
	}
	a := &archive{file: f}
	// Decoding into a map would not see a name that is there twice.
	d := json.NewDecoder(bytes.NewReader([]byte(header)))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, f.bad("header", "is no JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, f.bad("header", "%v", err)
		}
		if name == "__metadata__" {
			err = d.Decode(new(map[string]string))
		} else {
			err = a.addEntry(name.(string), c.at, d)
		}
		if err != nil {
			if _, typed := err.(ErrFile); !typed {
				err = f.bad("header", "%v", err)
			}
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, f.bad("header", "%v", err)
	}
	return a, a.disjoint()
}

// addEntry reads a tensor's description from the header of a file with data from
// byte start on.
func (a *archive) addEntry(name string, start int, d *json.Decoder) error {
	var entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets []int  `json:"data_offsets"`
	}
	if err := d.Decode(&entry); err != nil {
		return err
	}
	o := entry.Offsets
	if len(o) != 2 || o[0] < 0 || o[1] < o[0] || o[1] > len(a.data)-start {
		return a.bad("tensor "+name, "data_offsets %v, need a range within the %d bytes of data", o, len(a.data)-start)
	}
	if err := a.add(name, entry.DType, entry.Shape, start+o[0]); err != nil {
		return err
	}
	if t := a.tensors[name]; t.data != nil && len(t.data) != o[1]-o[0] {
		return a.bad("tensor "+name, "shape %v of %s has %d bytes, data_offsets %v", t.shape, t.encoding, len(t.data), o)
	}
	return nil
}
