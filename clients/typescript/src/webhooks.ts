// Verifies a webhook: call it with the body exactly as it arrived, before parsing it.
import { createHmac, timingSafeEqual } from "node:crypto";

export const TOLERANCE_SECONDS = 300;

/** Throw unless the headers sign this body with the secret, and the message is fresh. Returns its id: handle each once. */
export function verifyWebhook(
  secret: string,
  headers: Record<string, string | undefined>,
  body: string | Uint8Array,
  now: number = Date.now() / 1000,
): string {
  const given = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const id = given["webhook-id"];
  const time = given["webhook-timestamp"];
  const signatures = given["webhook-signature"];
  if (!id || !time || !signatures || !/^\d{1,12}$/.test(time)) throw new Error("The webhook is not signed.");
  const key = secret.startsWith("whsec_") ? Buffer.from(secret.slice(6), "base64") : Buffer.from(secret);
  const expected = createHmac("sha256", key).update(`${id}.${time}.`).update(body).digest();
  const matches = signatures.split(" ").some((each) => {
    const [version, value] = each.split(",", 2);
    const sent = Buffer.from(value ?? "", "base64");
    return version === "v1" && sent.length === expected.length && timingSafeEqual(sent, expected);
  });
  if (!matches) throw new Error("No signature of the webhook matches its content.");
  if (Math.abs(now - Number(time)) > TOLERANCE_SECONDS) throw new Error("The webhook is too old, or from the future.");
  return id;
}
