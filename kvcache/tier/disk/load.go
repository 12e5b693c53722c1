package disk

import "github.com/ferrumkv/ferrumkv/kvcache/tier"

// load reads the table, or begins one. fresh: there is no meta.json yet, and nothing but what a tier wrote is overwritten.
func (t *Tier) load(fresh bool) error {
	size, err := t.table.Size()
	if err != nil {
		return err
	}
	data, err := t.data.Size()
	if err != nil {
		return err
	}
	head := make([]byte, min(size, page))
	if _, err := t.table.ReadAt(head, 0); err != nil && size > 0 {
		return err
	}
	torn, wrong := t.codec.checkHeader(head)
	switch {
	case wrong != "":
		return tier.ErrConfig{Name: name, What: t.o.Dir + ": " + wrong + "; choose another directory, or remove it"}
	case fresh && torn && size+data > 0:
		return tier.ErrConfig{Name: name, What: t.o.Dir + " has files with the names table or data that are no tier's; choose another directory"}
	case fresh:
		if err := t.o.writeMeta(&t.codec); err != nil {
			return err
		}
	}
	if torn {
		if !allZero(head) { // else the process ended before it was written
			t.stats.Corrupt++
		}
		return t.start()
	}
	t.lost = errEarlier
	slots := min((data+t.stride-1)/t.stride, int64(t.limit)) // a crash may have kept a part of the last one
	t.index.grow(int(slots))
	if err := t.cut(int(slots)); err != nil {
		return err
	}
	if err := t.readTable(data); err != nil || !t.o.Durable {
		return err
	}
	return t.sync() // what is here is not stored again, and an earlier process may have left it unsynced
}

// start makes files without any block. The data is cut off first: what it has belongs to entries that cannot be read.
func (t *Tier) start() error {
	if err := t.data.Truncate(0); err != nil {
		return err
	}
	if err := t.table.Truncate(0); err != nil {
		return err
	}
	head, err := t.codec.header()
	if err != nil {
		return err
	}
	if _, err := t.table.WriteAt(head, 0); err != nil {
		return err
	}
	return t.table.Sync()
}

// cut makes the files end after so many slots, if they are longer.
func (t *Tier) cut(slots int) error {
	for _, f := range []struct {
		file file
		size int64
	}{{t.table, page + int64(slots)*entryBytes}, {t.data, int64(slots) * t.stride}} {
		size, err := f.file.Size()
		if err == nil && size > f.size {
			err = f.file.Truncate(f.size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
