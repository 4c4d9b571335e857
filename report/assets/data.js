// Reads the page's packed data; report/encode.go says how it is packed.
"use strict";

async function unpack(text) {
  const letters = atob(text), raw = new Uint8Array(letters.length);
  for (let i = 0; i < raw.length; i++) raw[i] = letters.charCodeAt(i);
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  let at = 4 + length;
  const columns = {};
  for (const name of data.order) {
    const values = new Float64Array(data.columns[name]);
    let last = 0;
    for (let i = 0; i < values.length; i++) {
      let byte = bytes[at++], number = byte;
      if (byte > 127) { // numbers may pass 2^31, where shifts would wrap
        let scale = 128;
        number -= 128;
        do {
          byte = bytes[at++];
          number += (byte & 127) * scale;
          scale *= 128;
        } while (byte > 127);
      }
      last += number % 2 === 1 ? -(number + 1) / 2 : number / 2;
      values[i] = last;
    }
    columns[name] = values;
  }
  data.columns = columns;
  return data;
}

const GRAIN = 512;

function bytesText(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(n) >= 1024 && unit < 4) { n /= 1024; unit++; }
  return (unit === 0 ? n : n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2)) + " " + units[unit];
}

// shortText is bytesText without zeros at its end, for axes.
const shortText = (n) => bytesText(n).replace(/\.0+(?= )|(\.\d*?)0+(?= )/, "$1");

function timeText(micros) {
  if (micros >= 1e6) return (micros / 1e6).toFixed(3) + " s";
  if (micros >= 1e3) return (micros / 1e3).toFixed(2) + " ms";
  return micros.toFixed(0) + " µs";
}

const countText = (n) => Math.round(n).toLocaleString("en");

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// The margins that the curve and the map share, so that one lies exactly below the other.
const LEFT = 84, RIGHT = 14;
