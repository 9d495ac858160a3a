// The packed block: base64, gzip, a JSON header, then columns byte plane by byte plane (see pack.py).

async function unpack(text) {
  const zipped = Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([zipped]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const body = bytes.subarray(4 + length);
  const columns = {};
  for (const [name, row] of Object.entries(header.columns)) columns[name] = readColumn(body, row);
  return { header, columns };
}

function readColumn(body, { at, count, width, delta, signed }) {
  const small = width < 4 && !delta;
  const values = small ? new Int32Array(count) : new Float64Array(count);
  for (let plane = 0, scale = 1; plane < width; plane++, scale *= 256) {
    const from = at + plane * count;
    for (let i = 0; i < count; i++) values[i] += body[from + i] * scale;
  }
  if (signed) for (let i = 0; i < count; i++) values[i] = values[i] % 2 ? -(values[i] + 1) / 2 : values[i] / 2;
  if (delta) for (let i = 1; i < count; i++) values[i] += values[i - 1];
  return values;
}
