import { config } from 'zod'

/** zod would try whether it may make functions out of text, which a page's security policy reports as an attack. */
config({ jitless: true })
