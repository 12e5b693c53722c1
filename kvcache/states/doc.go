// Package states keeps what an engine has computed for whole conversations in a directory, as bytes that only that engine understands. States
// survive restarts, stay within a budget, and are verified when they are read; bytes that several of them have in common are stored once. The
// package needs no device and knows no engine's format.
//
// A state is stored under a Key: an Identity, which is all that its bytes depend on besides the text, and the ids of the tokens that it stands
// for. It has one or more named parts, such as those of a target and of a draft model. The parts of a state are stored and found together, or not
// at all. Store.Nearest finds the state that saves most of a prompt.
//
// # Files
//
//	meta.json      what the directory is: format, version, and whether it is sealed
//	lock           locked by the one process that has the directory open
//	states/ID      the manifest of a state: its key, its parts, and the names of the chunks that they consist of
//	packs/N.pack   chunks, followed by an index of them; N is a number in 16 hexadecimal digits
//
// Numbers are little-endian. Parts are split at places that depend on their content, into chunks of 8 to 64 KiB, 16 KiB on average. The name of
// a chunk is the HMAC-SHA256 of its bytes, under a key that is derived from the salt and, if there is one, from the secret. Chunks that states of
// one salt have in common are stored once; the store does not reveal what states of another salt contain. An ID is such a sum of the state's key.
//
// The manifests are the only index of token lists. Each holds the whole list of its state, and Open reads them all, so there is no other file that
// could disagree with them or be lost. The modification time of a manifest is when its state was last used. Likewise, only the indexes of packs
// say where a chunk is, so a chunk can be moved without changing a manifest. If a chunk is in two packs, it is read from the one with the higher
// number.
//
// # Commits and crashes
//
// Put writes the chunks that are not stored yet into a pack, or into several of at most 64 MiB, and then the manifest. Each file is written under
// a temporary name and renamed when it is complete. A chunk that is already stored is read and compared before it is shared, and is written again
// if it is damaged. A process that is killed at any moment leaves the previous state or the new one, and files that Open removes: packs with no
// chunk that a manifest names, and unfinished files. Open removes only files whose names have the form of the store's own; all others stay, and do
// not count against the budget.
//
// A pack is removed with the last state that uses a chunk of it. A pack of which at least half is dead, which means used by no state, is rewritten
// after the call that made it so; when room is needed, a quarter suffices. The live chunks are written to another pack, which is synced and renamed
// before the old one is removed. So every chunk can be read at any time, and a process that is killed leaves one of the packs, or both with the
// same chunks. A pack has chunks of one salt only: after Clear nothing of the salt is left, whereas after Delete some bytes of a state may remain
// in a pack until it is rewritten.
//
// Nothing else is synced unless Options.Durable is set: a crash of the machine may lose all or part of what was put in the seconds before it, and
// the states concerned are then misses. Delete and Clear do sync: what they removed does not come back.
//
// # What is lost
//
// A state is whole or a miss. Get verifies every chunk against its name before it returns any byte. If a chunk is missing or has other bytes, the
// state is given up: the call that finds this returns ErrDamaged, and later calls find a miss. Other states that share the chunk become whole again
// if a Put stores the chunk before they are read; otherwise they are given up, too. Open gives up states whose manifest was changed, or whose
// chunks are not all there, for example because the index of a pack was changed. A file that cannot be read at all, for example because of an
// error of the disk, is an error, and nothing is given up.
//
// # Versions
//
// Open refuses a directory of another format or version, or one that is sealed differently. The error is an ErrConfig that names the field, and the
// directory is left unchanged. This is version 2. Version 1, in which each chunk was a file, was never released and is refused. A later version
// will read this one, or refuse it by its number. A state of another model, engine, engine version, setting or adapter is a miss that names the
// field (ErrMiss).
//
// # Limits
//
// The files take at most Options.Bytes, counted in whole blocks of 4 KiB, and leave Options.Floor bytes of the file system free. Both limits hold
// before each write and when the directory is opened. Dead bytes in packs count until they are reclaimed. When there is no room, dead bytes are
// reclaimed first. Then the least recently used states are evicted, except those that are pinned or being read. If that does not suffice, Put fails
// with ErrFull, and what was stored is as before, except for the states that were evicted. Put leaves a thirty-second of the budget unused, at most
// 64 MiB, so that a pack can always be rewritten. States whose lifetime is over are removed by the next call of any method but Stats and Close.
//
// # Locks
//
// One process at a time has a directory open; Open returns ErrInUse to others. Within the process all methods may be called concurrently. What a
// Get reads stays until it has been read, whatever is put, deleted or evicted in the meantime. No call waits while another one reads, hashes,
// writes or removes chunks, except that Puts that need room wait for each other. Of concurrent Puts under one key, the last to finish wins.
//
// # Copies
//
// A tier may hold copies of what is put (Options.Copies). Stores of other machines find them by Fetch, FetchNearest and FetchWhole. Copies can be
// lost at any time, and whatever a tier does wrong is a miss. States live in the directory, and only its files count against the budget.
// See docs/states.md.
//
// # Other people's prompts
//
// States are made from prompts, and prompts can be recovered from them. Directories have mode 0700 and files 0600; a directory that others may
// write to is refused. With a Secret everything but meta.json is sealed by AES-256-GCM (XAES-256-GCM), bound to the name of its file or chunk, and
// names reveal nothing to anyone without the secret. Deleted bytes may remain on the medium for longer: use a secret, or encrypt the file system.
package states
