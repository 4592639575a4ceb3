/* What the static executable has of OpenSSL, as the built-in module `_sealing`: elsewhere the Python package cryptography
 * does the same, which is larger than all of ours.
 *
 * AES-256-GCM with the tag at the end, and Ed25519: public keys, signatures and their check.
 *
 * Each ends with ERR_clear_error: what it was refused is left in a queue of the thread, and the next TLS connection of that
 * thread would take it for its own failure.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#define KEY 32
#define TAG 16
#define SEED 32
#define PUBLIC_KEY 32
#define SIGNATURE 64

typedef struct {
    Py_buffer key, nonce, data, more;
} Arguments;

static void release(Arguments *given) {
    PyBuffer_Release(&given->key);
    PyBuffer_Release(&given->nonce);
    PyBuffer_Release(&given->data);
    PyBuffer_Release(&given->more);
    ERR_clear_error();
}

static int parse(PyObject *arguments, Arguments *given) {
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*", &given->key, &given->nonce, &given->data, &given->more))
        return 0;
    if (given->key.len == KEY && given->nonce.len > 0 && given->nonce.len <= INT_MAX && given->more.len <= INT_MAX &&
        given->data.len <= INT_MAX - TAG)
        return 1;
    release(given);
    PyErr_SetString(PyExc_ValueError, "cannot encrypt or decrypt: the key has not 32 bytes, or something is too long");
    return 0;
}

/* Encrypts or decrypts all but the tag; 0 if it fails. */
static int run(EVP_CIPHER_CTX *context, const Arguments *given, int encrypt, unsigned char *out, int length) {
    int written;
    return EVP_CipherInit_ex2(context, EVP_aes_256_gcm(), NULL, NULL, encrypt, NULL) == 1 &&
           EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, (int)given->nonce.len, NULL) == 1 &&
           EVP_CipherInit_ex2(context, NULL, given->key.buf, given->nonce.buf, encrypt, NULL) == 1 &&
           EVP_CipherUpdate(context, NULL, &written, given->more.buf, (int)given->more.len) == 1 &&
           EVP_CipherUpdate(context, out, &written, given->data.buf, length) == 1;
}

static PyObject *call_encrypt(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Arguments given;
    if (!parse(arguments, &given))
        return NULL;
    PyObject *result = PyBytes_FromStringAndSize(NULL, given.data.len + TAG);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    if (result != NULL && context != NULL) {
        unsigned char *out = (unsigned char *)PyBytes_AS_STRING(result);
        int length = (int)given.data.len, rest;
        if (!run(context, &given, 1, out, length) || EVP_CipherFinal_ex(context, out + length, &rest) != 1 ||
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, TAG, out + length) != 1)
            Py_CLEAR(result);
    }
    EVP_CIPHER_CTX_free(context);
    release(&given);
    if (result == NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "cannot encrypt: OpenSSL refused");
    return result;
}

static PyObject *call_decrypt(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Arguments given;
    if (!parse(arguments, &given))
        return NULL;
    PyObject *result = NULL;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    if (context != NULL && given.data.len >= TAG) {
        int length = (int)given.data.len - TAG, rest;
        result = PyBytes_FromStringAndSize(NULL, length);
        if (result != NULL) {
            unsigned char *out = (unsigned char *)PyBytes_AS_STRING(result);
            if (!run(context, &given, 0, out, length) ||
                EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, TAG, (char *)given.data.buf + length) != 1 ||
                EVP_CipherFinal_ex(context, out + length, &rest) != 1)
                Py_CLEAR(result); /* nothing of what was changed is ever seen */
        }
    }
    EVP_CIPHER_CTX_free(context);
    release(&given);
    if (result == NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "cannot decrypt: it was changed, or it is another key");
    return result;
}

static PyObject *call_verify(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Py_buffer key, signature, message;
    if (!PyArg_ParseTuple(arguments, "y*y*y*:verify", &key, &signature, &message))
        return NULL;
    int good = 0;
    if (key.len == PUBLIC_KEY && signature.len == SIGNATURE) {
        EVP_PKEY *public_key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key.buf, PUBLIC_KEY);
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        good = public_key != NULL && context != NULL &&
               EVP_DigestVerifyInit(context, NULL, NULL, NULL, public_key) == 1 &&
               EVP_DigestVerify(context, signature.buf, SIGNATURE, message.buf, (size_t)message.len) == 1;
        EVP_MD_CTX_free(context);
        EVP_PKEY_free(public_key);
    }
    PyBuffer_Release(&key);
    PyBuffer_Release(&signature);
    PyBuffer_Release(&message);
    ERR_clear_error();
    return PyBool_FromLong(good);
}

/* Returns the private key that a seed stands for, or NULL with an exception. */
static EVP_PKEY *private_key(const Py_buffer *seed) {
    if (seed->len != SEED) {
        PyErr_SetString(PyExc_ValueError, "cannot use the seed of a key: it has not 32 bytes");
        return NULL;
    }
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed->buf, SEED);
    if (key == NULL) {
        ERR_clear_error();
        PyErr_SetString(PyExc_ValueError, "cannot use the seed of a key: OpenSSL refused");
    }
    return key;
}

static PyObject *call_public_key(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Py_buffer seed;
    if (!PyArg_ParseTuple(arguments, "y*:public_key", &seed))
        return NULL;
    EVP_PKEY *key = private_key(&seed);
    PyBuffer_Release(&seed);
    if (key == NULL)
        return NULL;
    unsigned char found[PUBLIC_KEY];
    size_t length = PUBLIC_KEY;
    int good = EVP_PKEY_get_raw_public_key(key, found, &length) == 1 && length == PUBLIC_KEY;
    EVP_PKEY_free(key);
    ERR_clear_error();
    if (good)
        return PyBytes_FromStringAndSize((const char *)found, PUBLIC_KEY);
    PyErr_SetString(PyExc_ValueError, "cannot tell the public key: OpenSSL refused");
    return NULL;
}

static PyObject *call_sign(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Py_buffer seed, message;
    if (!PyArg_ParseTuple(arguments, "y*y*:sign", &seed, &message))
        return NULL;
    unsigned char signature[SIGNATURE];
    size_t length = SIGNATURE;
    int good = 0;
    EVP_PKEY *key = private_key(&seed);
    if (key != NULL) {
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        good = context != NULL && EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1 &&
               EVP_DigestSign(context, signature, &length, message.buf, (size_t)message.len) == 1 && length == SIGNATURE;
        EVP_MD_CTX_free(context);
        EVP_PKEY_free(key);
        if (!good)
            PyErr_SetString(PyExc_ValueError, "cannot sign: OpenSSL refused");
    }
    PyBuffer_Release(&seed);
    PyBuffer_Release(&message);
    ERR_clear_error();
    return good ? PyBytes_FromStringAndSize((const char *)signature, SIGNATURE) : NULL;
}

static PyMethodDef functions[] = {
    {"encrypt", call_encrypt, METH_VARARGS, "encrypt(key, nonce, data, associated): what only decrypt opens"},
    {"decrypt", call_decrypt, METH_VARARGS, "decrypt(key, nonce, data, associated): the data; ValueError if it was changed"},
    {"public_key", call_public_key, METH_VARARGS, "public_key(seed): the public key of an Ed25519 key"},
    {"sign", call_sign, METH_VARARGS, "sign(seed, message): the Ed25519 signature of a message"},
    {"verify", call_verify, METH_VARARGS, "verify(key, signature, message): whether an Ed25519 signature is right"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_sealing",
    .m_doc = "What the static executable has of OpenSSL.",
    .m_size = 0,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__sealing(void) { return PyModuleDef_Init(&module); }
