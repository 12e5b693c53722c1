// Package states keeps what an engine has computed for whole conversations, as bytes that only that engine understands, in a directory: across
// restarts, within a budget, verified, and each part of it once. It knows no device and no format of a state.
//
// A state is kept under a Key: an Identity, which is all that its bytes depend on besides the text, and the token ids that they stand for.
// It has one or more named parts, such as those of a target and of a draft model, which are stored and found together or not at all.
// Nearest finds the state that saves most of a prompt.
//
// # Files
//
//	meta.json      what the directory is: format, version, and whether it is sealed
//	lock           locked by the one process that has the directory open
//	states/ID      the manifest of a state: its key, its parts, and the names of the chunks that they consist of
//	packs/N.pack   chunks, and behind them an index that says which they are; N is a number in 16 hexadecimal digits
//
// Numbers are little-endian. Parts are cut where their content says so, in chunks of 8 to 64 KiB, 16 KiB in the mean. The name of a
// chunk is the HMAC-SHA256 of its bytes under a key that is made from the salt, and from the secret where there is one. What states of one
// salt have in common is stored once, and nobody learns from the store what states of another salt have. ID is such a sum of the state's key.
//
// Manifests are the index of token lists: each has the whole list of its state, Open reads all of them, and there is no other file that
// could disagree with them or be lost. The time of a manifest's file is when its state was used last. Likewise the indexes of packs say where a chunk
// is, and a manifest does not, so that a chunk can be moved without it. Where a chunk is in two packs, that of the higher number is read.
//
// # Commits and crashes
//
// Put writes the chunks that are not there into a pack, or into several of at most 64 MiB, and then the manifest, each under another name and renamed
// when it is whole. A chunk that is there is read and compared before it is shared, and written anew where it is damaged. A process that is
// killed at any moment leaves the state of before or the new one, and files that Open removes: packs of which no manifest names a chunk, and
// unfinished files. Open removes only what is named as the store names its own files; all else stays, and is not counted.
//
// A pack goes with the last state that has a chunk of it. One of which at least half is used by no state is rewritten after the call that made it so, or,
// where room is needed, one of a quarter: what is used goes into another pack, which is renamed and synced before the old one is removed. So every
// chunk can be read at any time, and a process that is killed leaves one pack or both, which have the same. Packs have chunks of one salt: after
// Clear nothing of it is left, while after Delete a part of a state may lie dead in a pack until that is rewritten.
//
// Nothing else is synced unless Options say Durable: a crash of the machine may lose what was put in the seconds before it, or a part of it,
// which is then a miss. Delete and Clear sync: what they removed does not come back.
//
// # What is lost
//
// A state is whole or a miss. Get verifies every chunk against its name before it returns any byte. A state with a chunk that is missing
// or has other bytes is given up: ErrDamaged says so once, to the call that finds it, and then it is a miss. Other states that share the
// chunk are whole again when a Put stores it anew, and are given up when they are read before that. Open gives up states whose
// manifest was changed, or whose chunks are not all there, as where the index of a pack was changed. A file that cannot be read at all,
// such as by an error of the disk, is an error, and nothing is given up.
//
// # Versions
//
// Open refuses a directory of another version or format, and one that is sealed otherwise, by the name of the field (ErrConfig), and
// changes nothing in it. This is version 2; in 1, which was in no release and is refused, each chunk was a file. A later one will read it or
// refuse it by name. A state of another model, engine, version of it, setting or adapter is a miss that names the field (ErrMiss).
//
// # Limits
//
// Files take Options.Bytes at most, in whole blocks of 4 KiB, and leave Options.Floor bytes of the file system free. Both hold before each
// write, and when the directory is opened. What is dead in packs counts until it is gone. Where there is no room, that is got back first, and
// then states go that were used least lately, but not those that are pinned or being read; where that does not suffice, Put fails with ErrFull,
// and what was stored is as before, but for what went. So that a pack can be rewritten, Put leaves a thirty-second of the budget, at most 64 MiB.
// States whose lifetime is over go with the next call, whichever it is.
//
// # Locks
//
// One process has a directory open (ErrInUse). In it all methods may be called at once. A Get has what it reads until it has read it,
// whatever is put, deleted or evicted meanwhile. Nobody waits while another reads, sums, writes or removes chunks, but for Puts that need
// room, which wait for each other. Of Puts under one key, what the last one to finish has stored stays.
//
// # Copies
//
// A tier may hold copies of what is put (Options.Copies), where stores of other machines find them by Fetch, FetchNearest and FetchWhole. Copies can be
// lost at any time; what a tier does wrong is a miss. Files stay the place of a state, and only they are in the budget. See docs/states.md.
//
// # Other people's prompts
//
// States are made from prompts, which can be computed from them. Directories have mode 0700 and files 0600; a directory that others may
// write to is refused. With a Secret all but meta.json is sealed by AES-256-GCM (XAES-256-GCM), each file as what its name says, and names
// tell nobody without it what is stored. What was deleted may be found on the medium for longer: seal it, or encrypt the file system.
package states
