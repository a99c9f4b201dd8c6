#!/bin/sh
# Makes the demo audio anew. Needs ffmpeg, sox and espeak-ng. The files are committed, so that a demo needs
# none of these; everything in them is generated here, and free to use.
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Music-like: four chords of plucked strings, a bass under them, 44.1 kHz stereo, 20 s.
chord() { sox -n -r 44100 -c 2 "$tmp/$1.wav" synth 5 pluck "$2" pluck "$3" pluck "$4" pluck "$5" remix 1,3,4 2,3,4 \
	fade t 0.01 5 0.8 gain -6; }
chord 1 C2 C4 E4 G4
chord 2 A1 A3 C4 E4
chord 3 F1 F3 A3 C4
chord 4 G1 G3 B3 D4
sox "$tmp/1.wav" "$tmp/2.wav" "$tmp/3.wav" "$tmp/4.wav" "$tmp/song.wav" reverb 30 gain -n -3
sox "$tmp/song.wav" -b 16 --add-comment 'Title=Four Chords' --add-comment 'Artist=The Demo Machine' music.wav trim 0 10
ffmpeg -v error -y -bitexact -i "$tmp/song.wav" -metadata title='Four Chords' -metadata artist='The Demo Machine' \
	-metadata album='Demo' -c:a flac -sample_fmt s16 -flags +bitexact music-long.flac

# Speech, mono: a wav and an mp3 with tags.
espeak-ng -v en -s 150 -w "$tmp/speech.wav" 'Nothing is generated in advance. The first listener hears it while
it encodes, everyone who asks for the same variant shares that one render, and afterwards it is a finished file.'
sox "$tmp/speech.wav" -r 44100 -b 16 -c 1 speech.wav gain -n -3
ffmpeg -v error -y -bitexact -i speech.wav -metadata title='What it does' -metadata artist='espeak-ng' \
	-c:a libmp3lame -b:a 64k speech.mp3
